// A consumer of C++ internals, as kernel plugins of MIOpen are: it derives from a class of the library and calls its functions.
namespace miopen {

struct Solver {
    virtual ~Solver();
    virtual int id() const;
};
int registered(const Solver& solver);

}  // namespace miopen

struct Own : miopen::Solver {
    int id() const override { return Solver::id() + 2; }
};

extern "C" int plugin_run(void);
int plugin_run(void) { return miopen::registered(Own()); }
