// The C API from C++: handles that give themselves back, statuses that become exceptions.
//
//   relu STORE GRAPH
//
// GRAPH is a file with y = relu(x) over 6 floats, x being uid 0 and y uid 1. It is compiled into STORE for the CPU and executed.
#include <hipplan.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Close {
    void operator()(hipplan_t* library) const { hipplan_close(library); }
    void operator()(hipplan_plan_t* plan) const { hipplan_release(plan); }
};
using Library = std::unique_ptr<hipplan_t, Close>;
using Plan = std::unique_ptr<hipplan_plan_t, Close>;

void check(hipplan_status_t status) {
    if (status != HIPPLAN_OK)
        throw std::runtime_error(std::string(hipplan_status_name(status)) + ": " + hipplan_last_error());
}

Library open(const char* store, const char* device) {
    hipplan_open_options_t options{};
    options.struct_size = sizeof options;
    options.stores = &store;
    options.store_count = 1;
    options.device = device;
    hipplan_t* library = nullptr;
    check(hipplan_open(&options, &library));
    return Library(library);
}

Plan bind(const Library& library, const std::vector<char>& graph) {
    hipplan_plan_t* plan = nullptr;
    check(hipplan_bind_by_graph(library.get(), graph.data(), graph.size(), nullptr, &plan));
    return Plan(plan);
}

void run(const char* store, const char* file) {
    std::ifstream stream(file, std::ios::binary);
    const std::vector<char> graph((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    const Library library = open(store, "cpu");
    check(hipplan_compile(library.get(), graph.data(), graph.size()));
    const Plan plan = bind(library, graph);

    float x[] = {-1, 2, -3, 4, -5, 6}, y[6];
    std::vector<char> memory(hipplan_plan_workspace_size(plan.get()) + 256);
    void* workspace = memory.data();
    std::size_t size = memory.size();
    std::align(256, size - 256, workspace, size);
    const hipplan_binding_t bindings[] = {{0, x}, {1, y}};
    check(hipplan_execute(plan.get(), bindings, 2, workspace, size, nullptr, nullptr));
    for (float value : y)
        std::printf("%g\n", static_cast<double>(value));
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: relu STORE GRAPH\n");
        return 2;
    }
    try {
        run(argv[1], argv[2]);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "relu: %s\n", error.what());
        return 1;
    }
}
