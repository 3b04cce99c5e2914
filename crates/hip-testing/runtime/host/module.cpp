// Modules, functions, launches.
//
// A module is a kernel library that was built for the host: an x86-64 shared object. Where the device answers with an AMD arch, it is an
// AMD code object, and a function is the kernel of the same name in the library TWINS/NAME.so.
#include "host.h"
#include "run.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <memory>
#include <set>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <unordered_set>
#include <vector>

namespace host {

namespace {

struct Library {
    void* handle = nullptr;
    void (*run)(HpHostRun*) = nullptr;
    const void* (*thread_data)() = nullptr;
    int fd = -1;  // kept open where a sanitizer may want to read the image for its report
    ~Library() {
        if (handle)
            dlclose(handle);
        if (fd >= 0)
            close(fd);
    }
};

struct Function {
    std::shared_ptr<Library> library;
    std::string name;
    void (*entry)(const void*);
    unsigned block, kernarg;
    int device;
    const NaiveKernel* naive = nullptr;
};

struct Module {
    int device;
    std::shared_ptr<Library> library;  // null for an AMD code object
    std::set<std::string> kernels;     // of an AMD code object
    bool naive = false;                // made by the stand-in compiler from the source of MIOpen's naive convolutions
    std::vector<std::unique_ptr<Function>> functions;
};

std::unordered_set<Module*> modules;
std::unordered_set<const Function*> functions;

constexpr int EM_AMD_GPU = 224;
constexpr uint64_t MAX_IMAGE = 1ull << 31;

// The `e_flags` numbers of AMD processors, from LLVM's "User Guide for AMDGPU Backend".
struct Processor {
    unsigned number;
    const char* name;
};
constexpr Processor PROCESSORS[] = {
    {0x2c, "gfx900"},  {0x2d, "gfx902"},  {0x2e, "gfx904"},  {0x2f, "gfx906"},  {0x30, "gfx908"},  {0x31, "gfx909"},  {0x32, "gfx90c"},
    {0x33, "gfx1010"}, {0x34, "gfx1011"}, {0x35, "gfx1012"}, {0x36, "gfx1030"}, {0x37, "gfx1031"}, {0x38, "gfx1032"}, {0x39, "gfx1033"},
    {0x3d, "gfx1035"}, {0x3e, "gfx1034"}, {0x3f, "gfx90a"},  {0x40, "gfx940"},  {0x41, "gfx1100"}, {0x42, "gfx1013"}, {0x43, "gfx1150"},
    {0x44, "gfx1103"}, {0x45, "gfx1036"}, {0x46, "gfx1101"}, {0x47, "gfx1102"}, {0x48, "gfx1200"}, {0x4a, "gfx1151"}, {0x4b, "gfx941"},
    {0x4c, "gfx942"},  {0x4e, "gfx1201"}, {0x4f, "gfx950"},  {0x55, "gfx1152"}, {0x58, "gfx1153"},
};

// The length of an ELF image, which the caller does not tell: the end of its last header table, section or segment. 0: not an image.
uint64_t image_size(const char* image) {
    Elf64_Ehdr h;
    memcpy(&h, image, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB)
        return 0;
    if (h.e_type != ET_DYN || h.e_phentsize != sizeof(Elf64_Phdr) || (h.e_shnum && h.e_shentsize != sizeof(Elf64_Shdr)))
        return 0;
    if (h.e_phoff > MAX_IMAGE || h.e_shoff > MAX_IMAGE)
        return 0;
    uint64_t end = sizeof h;
    auto reach = [&](uint64_t offset, uint64_t size) {
        if (offset > MAX_IMAGE || size > MAX_IMAGE)
            end = MAX_IMAGE + 1;
        else if (offset + size > end)
            end = offset + size;
    };
    reach(h.e_phoff, uint64_t(h.e_phnum) * sizeof(Elf64_Phdr));
    for (unsigned i = 0; i < h.e_phnum; ++i) {
        Elf64_Phdr p;
        memcpy(&p, image + h.e_phoff + i * sizeof p, sizeof p);
        reach(p.p_offset, p.p_filesz);
    }
    if (h.e_shoff)
        reach(h.e_shoff, uint64_t(h.e_shnum) * sizeof(Elf64_Shdr));
    for (unsigned i = 0; h.e_shoff && i < h.e_shnum; ++i) {
        Elf64_Shdr s;
        memcpy(&s, image + h.e_shoff + i * sizeof s, sizeof s);
        if (s.sh_type != SHT_NOBITS)
            reach(s.sh_offset, s.sh_size);
    }
    return end > MAX_IMAGE ? 0 : end;
}

// Whether a feature of an object's `e_flags` (0 unsupported, 1 any, 2 off, 3 on) suits the device's arch name.
bool feature_fits(unsigned state, const std::string& arch, const char* name) {
    bool on = arch.find(std::string(name) + "+") != std::string::npos;
    bool off = arch.find(std::string(name) + "-") != std::string::npos;
    return state < 2 || (state == 3 ? on : off);
}

int check_amd(const Elf64_Ehdr& h) {
    const char* name = nullptr;
    for (const Processor& p : PROCESSORS)
        if (p.number == (h.e_flags & 0xff))
            name = p.name;
    const std::string& arch = settings.arch;
    if (!name || arch.substr(0, arch.find(':')) != name)
        return NO_BINARY_FOR_GPU;
    bool fits = feature_fits(h.e_flags >> 8 & 3, arch, ":xnack") && feature_fits(h.e_flags >> 10 & 3, arch, ":sramecc");
    return fits ? SUCCESS : NO_BINARY_FOR_GPU;
}

// Kernels of a code object: its dynamic symbols that end in `.kd`.
std::set<std::string> amd_kernels(const char* image, uint64_t size, const Elf64_Ehdr& h) {
    std::set<std::string> names;
    for (unsigned i = 0; i < h.e_shnum; ++i) {
        Elf64_Shdr s, strings;
        memcpy(&s, image + h.e_shoff + i * sizeof s, sizeof s);
        if (s.sh_type != SHT_DYNSYM || s.sh_link >= h.e_shnum)
            continue;
        memcpy(&strings, image + h.e_shoff + s.sh_link * sizeof strings, sizeof strings);
        for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= s.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            memcpy(&symbol, image + s.sh_offset + at, sizeof symbol);
            if (symbol.st_name >= strings.sh_size)
                continue;
            const char* text = image + strings.sh_offset + symbol.st_name;
            std::string name(text, strnlen(text, std::min(strings.sh_size - symbol.st_name, size)));
            if (name.size() > 3 && name.compare(name.size() - 3, 3, ".kd") == 0)
                names.insert(name.substr(0, name.size() - 3));
        }
    }
    return names;
}

std::shared_ptr<Library> open_library(const char* path, std::string* why) {
    auto library = std::make_shared<Library>();
    library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library->handle) {
        *why = dlerror();
        return nullptr;
    }
    auto version = static_cast<const unsigned*>(dlsym(library->handle, "hp_host_version"));
    library->run = reinterpret_cast<void (*)(HpHostRun*)>(dlsym(library->handle, "hp_host_run"));
    library->thread_data = reinterpret_cast<const void* (*)()>(dlsym(library->handle, "hp_host_thread_data"));
    if (!version || *version != HP_HOST_VERSION || !library->run || !library->thread_data) {
        *why = "no kernel library of this runtime's version";
        return nullptr;
    }
    return library;
}

std::shared_ptr<Library> open_image(const char* image, uint64_t size, std::string* why) {
    int fd = memfd_create("hipplan-kernel", MFD_CLOEXEC);
    if (fd < 0) {
        *why = "memfd_create failed";
        return nullptr;
    }
    std::shared_ptr<Library> library;
    uint64_t written = 0;
    while (written < size) {
        ssize_t n = write(fd, image + written, size - written);
        if (n <= 0)
            break;
        written += n;
    }
    if (written == size) {
        // The loader takes a path that it knows for the library that it knows, and numbers of files come again. So the path spells
        // numbers of its own, in ways to write a slash: the time, and an address that tells copies of this runtime apart.
        static std::atomic<uint64_t> count{0};
        uint64_t time = std::chrono::steady_clock::now().time_since_epoch().count();
        std::string path = "/proc/self/fd/";
        for (uint64_t number : {time, (reinterpret_cast<uintptr_t>(&count) >> 12 << 24) + ++count})
            for (int bit = 0; bit < 64; ++bit)
                path += number >> bit & 1 ? "./" : "/";
        library = open_library((path + std::to_string(fd)).c_str(), why);
    } else
        *why = "the image could not be written";
#ifdef __SANITIZE_ADDRESS__
    if (library) {
        library->fd = fd;
        return library;
    }
#endif
    close(fd);
    return library;
}

// Stacks of blocks' threads, kept for the next launch.
class Stacks {
public:
    struct Region {
        char* begin = nullptr;
        unsigned count = 0;
    };
    static constexpr size_t GUARD = 4096;
#ifdef __SANITIZE_ADDRESS__
    static constexpr size_t SIZE = 256 * 1024;
#else
    static constexpr size_t SIZE = 128 * 1024;
#endif

    Region take(unsigned count) {
        std::lock_guard<std::mutex> lock(mutex_);
        for (size_t i = 0; i < free_.size(); ++i)
            if (free_[i].count >= count) {
                Region region = free_[i];
                free_.erase(free_.begin() + i);
                return region;
            }
        void* memory = mmap(nullptr, SIZE * count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            return {};
        Region region = {static_cast<char*>(memory), count};
        for (unsigned i = 0; i < count; ++i)
            mprotect(region.begin + SIZE * i, GUARD, PROT_NONE);
        return region;
    }

    void give(Region region) {
        std::lock_guard<std::mutex> lock(mutex_);
        free_.push_back(region);
    }

    ~Stacks() {
        for (Region& region : free_)
            munmap(region.begin, SIZE * region.count);
    }

private:
    std::mutex mutex_;
    std::vector<Region> free_;
} stacks;

// The calling thread's thread-local data of the library that an address of it lies in.
struct ThreadData {
    const void* inside;
    char* begin = nullptr;
    size_t size = 0;
};

int find_thread_data(dl_phdr_info* info, size_t, void* found) {
    ThreadData* data = static_cast<ThreadData*>(found);
    char* begin = static_cast<char*>(info->dlpi_tls_data);
    for (unsigned i = 0; begin && i < info->dlpi_phnum; ++i) {
        const auto& header = info->dlpi_phdr[i];
        if (header.p_type != PT_TLS)
            continue;
        size_t offset = static_cast<const char*>(data->inside) - begin;
        if (offset < header.p_memsz) {
            data->begin = begin;
            data->size = header.p_memsz;
            return 1;
        }
    }
    return 0;
}

// One thread's share of a launch.
void work(const Function& function, HpHostRun* run) {
    Stacks::Region region = stacks.take(run->block);
    if (!region.begin) {
        run->failed = 2;
        return;
    }
    ThreadData data = {function.library->thread_data()};
    dl_iterate_phdr(find_thread_data, &data);
    run->stacks = region.begin;
    run->stack_size = Stacks::SIZE;
    run->guard = Stacks::GUARD;
    run->shared = data.begin;
    run->shared_size = data.size;
    function.library->run(run);
    stacks.give(region);
}

int launch(const Function& function, const unsigned grid[3], const char* kernarg, const Settings& s) {
    {
        std::lock_guard<std::recursive_mutex> lock(mutex);
        count("kernel " + function.name);
    }
    if (function.naive) {
        if (s.naive != Naive::SKIP)
            run_naive(function.naive, kernarg);
        return SUCCESS;
    }
    unsigned long long next = 0;
    HpHostRun run = {};
    run.entry = function.entry;
    run.kernarg = kernarg;
    run.block = function.block;
    run.reverse = s.reverse;
    run.poison = s.poison;
    run.blocks = 1;
    for (int i = 0; i < 3; ++i) {
        run.grid[i] = grid[i];
        run.blocks *= grid[i];
    }
    run.next = &next;
    unsigned threads = static_cast<unsigned>(std::min<unsigned long long>(s.threads, run.blocks));
    std::vector<HpHostRun> runs(threads, run);
    std::vector<std::thread> helpers;
    for (unsigned i = 1; i < threads; ++i)
        helpers.emplace_back([&, i] { work(function, &runs[i]); });
    work(function, &runs[0]);
    for (auto& helper : helpers)
        helper.join();
    for (const HpHostRun& r : runs) {
        if (r.failed == 1) {
            fprintf(stderr, "host HIP: %s: divergent barrier in block (%u, %u, %u): of %u threads, %u wait and %u returned\n",
                    function.name.c_str(), r.bad[0], r.bad[1], r.bad[2], r.block, r.waiting, r.returned);
            return LAUNCH_FAILURE;
        }
        if (r.failed) {
            fprintf(stderr, "host HIP: %s: no memory for the stacks of %u threads\n", function.name.c_str(), r.block);
            return OUT_OF_MEMORY;
        }
    }
    return SUCCESS;
}

// A kernarg word that is an address of another device's memory would be a fault on real devices.
int check_pointers(const Function& function, const char* kernarg) {
    for (unsigned at = 0; at + 8 <= function.kernarg; at += 8) {
        uintptr_t word;
        memcpy(&word, kernarg + at, 8);
        Range range;
        if (find_range(reinterpret_cast<void*>(word), &range) && range.device >= 0 && range.device != function.device) {
            fprintf(stderr, "host HIP: %s: launched on device %d with an address of device %d at byte %u of its arguments\n",
                    function.name.c_str(), function.device, range.device, at);
            return ILLEGAL_ADDRESS;
        }
    }
    return SUCCESS;
}

// The kernarg bytes that `extra` names.
int read_extra(void** extra, const char** buffer, size_t* size) {
    *buffer = nullptr;
    const size_t* size_at = nullptr;
    for (int i = 0; extra && i < 8; i += 2) {
        switch (reinterpret_cast<uintptr_t>(extra[i])) {
        case LAUNCH_BUFFER_POINTER: *buffer = static_cast<const char*>(extra[i + 1]); break;
        case LAUNCH_BUFFER_SIZE: size_at = static_cast<const size_t*>(extra[i + 1]); break;
        case LAUNCH_END:
            if (!*buffer || !size_at)
                return INVALID_VALUE;
            *size = *size_at;
            return SUCCESS;
        default: return INVALID_VALUE;
        }
    }
    return INVALID_VALUE;
}

int load_image(Module* module, const char* bytes, uint64_t known_size) {
    if ((known_size && known_size < sizeof(Elf64_Ehdr)) || memcmp(bytes, ELFMAG, SELFMAG))
        return INVALID_IMAGE;
    uint64_t size = image_size(bytes);
    if (!size || (known_size && size > known_size))
        return INVALID_IMAGE;
    Elf64_Ehdr header;
    memcpy(&header, bytes, sizeof header);
    if (settings.arch != "host") {
        if (header.e_machine != EM_AMD_GPU)
            return NO_BINARY_FOR_GPU;
        if (int e = check_amd(header))
            return e;
        module->kernels = amd_kernels(bytes, size, header);
        return SUCCESS;
    }
    if (header.e_machine == EM_AMD_GPU)
        return NO_BINARY_FOR_GPU;
    std::string why;
    module->library = open_image(bytes, size, &why);
    if (!module->library) {
        fprintf(stderr, "host HIP: hipModuleLoadData: %s\n", why.c_str());
        return INVALID_IMAGE;
    }
    return SUCCESS;
}

// What the stand-in compiler writes in place of an object: this line, then its command line.
constexpr char PLACEHOLDER[] = "hipplan stand-in object\n";

// `size`: bytes of the image, or 0 where the caller does not know.
int load_module(void** out, const char* bytes, uint64_t known_size) {
    int device = 0;
    if (int e = current_device(&device))
        return e;
    if (!out || !bytes)
        return INVALID_VALUE;
    auto module = std::make_unique<Module>();
    module->device = device;
    if (!strncmp(bytes, PLACEHOLDER, strlen(PLACEHOLDER))) {
        std::string command(bytes, known_size ? strnlen(bytes, known_size) : strlen(bytes));
        module->naive = command.find("naive_conv") != std::string::npos;
    } else if (int e = load_image(module.get(), bytes, known_size))
        return e;
    modules.insert(module.get());
    ++live.modules;
    count("module");
    *out = module.release();
    return SUCCESS;
}

}  // namespace

}  // namespace host

using namespace host;

API int hipModuleLoadData(void** out, const void* image) {
    ENTER(hipModuleLoadData);
    NOT_IN_CAPTURE;
    return keep(load_module(out, static_cast<const char*>(image), 0));
}

API int hipModuleLoad(void** out, const char* path) {
    ENTER(hipModuleLoad);
    NOT_IN_CAPTURE;
    if (!path)
        return keep(INVALID_VALUE);
    FILE* file = fopen(path, "rb");
    if (!file)
        return keep(FILE_NOT_FOUND);
    std::vector<char> bytes;
    char part[65536];
    while (size_t n = fread(part, 1, sizeof part, file))
        bytes.insert(bytes.end(), part, part + n);
    fclose(file);
    if (bytes.empty())
        return keep(INVALID_IMAGE);
    // The readers of text stop at a zero.
    uint64_t size = bytes.size();
    bytes.resize(size + sizeof(Elf64_Ehdr), 0);
    return keep(load_module(out, bytes.data(), size));
}

API int hipModuleUnload(void* handle) {
    ENTER(hipModuleUnload);
    NOT_IN_CAPTURE;
    Module* module = static_cast<Module*>(handle);
    if (!modules.count(module))
        return keep(INVALID_HANDLE);
    drain();
    modules.erase(module);
    for (auto& function : module->functions)
        functions.erase(function.get());
    delete module;
    --live.modules;
    return keep(SUCCESS);
}

API int hipModuleGetFunction(void** out, void* handle, const char* name) {
    ENTER(hipModuleGetFunction);
    Module* module = static_cast<Module*>(handle);
    if (!modules.count(module))
        return keep(INVALID_HANDLE);
    if (!out || !name)
        return keep(INVALID_VALUE);
    for (auto& known : module->functions)
        if (known->name == name) {
            *out = known.get();
            return keep(SUCCESS);
        }
    auto hand_out = [&](Function function) {
        module->functions.push_back(std::make_unique<Function>(std::move(function)));
        functions.insert(module->functions.back().get());
        *out = module->functions.back().get();
        return keep(SUCCESS);
    };
    const NaiveKernel* naive = module->naive && settings.naive != Naive::MISSING ? find_naive(name) : nullptr;
    if (naive)
        return hand_out(Function{nullptr, name, nullptr, 0, naive_kernarg(naive), module->device, naive});
    std::shared_ptr<Library> library = module->library;
    if (!library) {
        std::string why = "the code object has no such kernel";
        if (module->kernels.count(name))
            library = open_library((settings.twins + "/" + name + ".so").c_str(), &why);
        if (!library) {
            fprintf(stderr, "host HIP: hipModuleGetFunction: %s: %s\n", name, why.c_str());
            return keep(NOT_FOUND);
        }
    }
    std::string base = name;
    auto entry = reinterpret_cast<void (*)(const void*)>(dlsym(library->handle, name));
    auto block = static_cast<const unsigned*>(dlsym(library->handle, (base + "_block").c_str()));
    auto kernarg = static_cast<const unsigned*>(dlsym(library->handle, (base + "_kernarg").c_str()));
    if (!entry || !block || !kernarg || *block == 0 || *block > HP_HOST_MAX_BLOCK)
        return keep(NOT_FOUND);
    return hand_out(Function{library, base, entry, *block, *kernarg, module->device});
}

namespace host {

namespace {

// Checks a launch and does it. `lock` is held at the start.
int launch_kernel(std::unique_lock<std::recursive_mutex>& lock, void* handle, const unsigned grid[3], const unsigned block[3],
                  unsigned shared_bytes, void* stream, void** parameters, void** extra) {
    const Function* function = static_cast<const Function*>(handle);
    if (!functions.count(function))
        return INVALID_HANDLE;
    int device = 0, current = 0;
    if (int e = current_device(&current))
        return e;
    if (int e = stream_device(stream, &device))
        return e;
    if (device != function->device || device != current)
        return INVALID_HANDLE;
    if (!grid[0] || !grid[1] || !grid[2] || grid[0] > 0x7fffffffu || grid[1] > 65535 || grid[2] > 65535)
        return INVALID_VALUE;
    // Arguments one by one are not what callers pass here, and their sizes are unknown.
    if (parameters)
        return INVALID_VALUE;
    const char* buffer = nullptr;
    size_t size = 0;
    if (int e = read_extra(extra, &buffer, &size))
        return e;
    // AMD's compilers add hidden arguments behind those of the source; MIOpen's callers may give room for them.
    if (function->naive ? size < function->kernarg || size > function->kernarg + 256 : size != function->kernarg) {
        fprintf(stderr, "host HIP: %s: %zu bytes of arguments, it takes %u\n", function->name.c_str(), size, function->kernarg);
        return INVALID_VALUE;
    }
    if (function->naive ? uint64_t(block[0]) * block[1] * block[2] > HP_HOST_MAX_BLOCK || !block[0] || block[1] != 1 || block[2] != 1
                        : block[0] != function->block || block[1] != 1 || block[2] != 1 || shared_bytes != 0) {
        fprintf(stderr, "host HIP: %s: block of %u x %u x %u threads and %u bytes of shared memory, it takes %u x 1 x 1 and 0\n",
                function->name.c_str(), block[0], block[1], block[2], shared_bytes, function->block);
        return LAUNCH_OUT_OF_RESOURCES;
    }
    if (int e = check_pointers(*function, buffer))
        return e;
    if (function->naive)
        if (int e = check_naive(function->naive, grid, buffer))
            return e;
    count_launch(device);
    if (int e = lost(device))
        return e;
    // Nothing is allocated for a launch that does nothing: what its caller allocates can be counted.
    if (settings.idle)
        return SUCCESS;
    // Of exactly its size, so that a sanitizer sees a kernel that reads beyond.
    std::shared_ptr<char[]> kernarg(new char[size]);
    memcpy(kernarg.get(), buffer, size);
    Settings now = settings;
    std::array<unsigned, 3> blocks = {grid[0], grid[1], grid[2]};
    std::function<int()> operation = [=] { return launch(*function, blocks.data(), kernarg.get(), now); };
    int code = SUCCESS;
    if (captured(stream, device, operation, &code))
        return code;
    if (now.deferred)
        return submit(stream, device, std::move(operation));
    // Launches of several threads run side by side.
    lock.unlock();
    code = launch(*function, blocks.data(), kernarg.get(), now);
    lock.lock();
    return code;
}

}  // namespace

}  // namespace host

API int hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                              unsigned block_z, unsigned shared_bytes, void* stream, void** parameters, void** extra) {
    ENTER_UNIQUE(hipModuleLaunchKernel);
    unsigned grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
    return keep(launch_kernel(lock, function, grid, block, shared_bytes, stream, parameters, extra));
}

// The grid is told in threads, and two events take the time of the kernel alone.
API int hipExtModuleLaunchKernel(void* function, unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned block_x,
                                 unsigned block_y, unsigned block_z, size_t shared_bytes, void* stream, void** parameters, void** extra,
                                 void* start, void* stop, unsigned) {
    ENTER_UNIQUE(hipExtModuleLaunchKernel);
    unsigned threads[3] = {threads_x, threads_y, threads_z}, block[3] = {block_x, block_y, block_z}, grid[3];
    for (int i = 0; i < 3; ++i) {
        // The last block may be smaller on real devices; no kernel that is known here has one.
        if (!block[i] || threads[i] % block[i])
            return keep(INVALID_VALUE);
        grid[i] = threads[i] / block[i];
    }
    if (shared_bytes > 65536)
        return keep(INVALID_VALUE);
    if (start)
        if (int e = record_event(start, stream))
            return keep(e);
    if (int e = launch_kernel(lock, function, grid, block, static_cast<unsigned>(shared_bytes), stream, parameters, extra))
        return keep(e);
    return keep(stop ? record_event(stop, stream) : static_cast<int>(SUCCESS));
}

// No kernel that is known here waits for other blocks.
API int hipModuleLaunchCooperativeKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**) {
    ENTER(hipModuleLaunchCooperativeKernel);
    return keep(NOT_SUPPORTED);
}

API int hipFuncGetAttribute(int* value, int attribute, const void* handle) {
    ENTER(hipFuncGetAttribute);
    const Function* function = static_cast<const Function*>(handle);
    if (!functions.count(function))
        return keep(INVALID_HANDLE);
    if (!value || attribute < 0 || attribute > 9)
        return keep(INVALID_VALUE);
    // 0: most threads of a block. What else there is, of registers and memory, does not exist here.
    *value = attribute != 0 ? 0 : function->naive ? HP_HOST_MAX_BLOCK : static_cast<int>(function->block);
    return keep(SUCCESS);
}

API int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* handle, int block, size_t) {
    ENTER(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor);
    const Function* function = static_cast<const Function*>(handle);
    if (!functions.count(function))
        return keep(INVALID_HANDLE);
    if (!blocks || block <= 0)
        return keep(INVALID_VALUE);
    *blocks = 2048 / block > 32 ? 32 : 2048 / block;
    return keep(SUCCESS);
}
