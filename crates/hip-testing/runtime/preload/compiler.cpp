// Stands in for the compiler that MIOpen runs, in a library to be preloaded: MIOpen asks a shell through popen() to change into a folder and
// run clang there. No code is made: the object is a line of text and the command line, which the host runtime takes for a module whose
// kernels are simulated (host/naive.cpp). All other commands go to the C library.
//
//   HIPPLAN_HOST_COMPILER   `run`, or `fail`: every compilation fails
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <string>

namespace {

// The value of the last `-o` of a command line, without quotes.
std::string output_of(const std::string& command) {
    size_t at = command.rfind(" -o ");
    if (at == std::string::npos)
        return "";
    at = command.find_first_not_of(' ', at + 4);
    if (at == std::string::npos)
        return "";
    char quote = command[at];
    if (quote == '"' || quote == '\'')
        return command.substr(at + 1, command.find(quote, at + 1) - at - 1);
    return command.substr(at, command.find_first_of(" ;&|\t\n", at) - at);
}

// The folder of a command that begins by changing into one.
std::string folder_of(const std::string& command) {
    if (command.compare(0, 3, "cd ") != 0)
        return "";
    size_t end = command.find_first_of(";&");
    std::string folder = command.substr(3, end == std::string::npos ? end : end - 3);
    while (!folder.empty() && (folder.back() == ' ' || folder.back() == '"' || folder.back() == '\''))
        folder.pop_back();
    size_t begin = folder.find_first_not_of(" \"'");
    return begin == std::string::npos ? "" : folder.substr(begin);
}

int find_runtime(dl_phdr_info* info, size_t, void* out) {
    const char* slash = strrchr(info->dlpi_name, '/');
    if (strncmp(slash ? slash + 1 : info->dlpi_name, "libamdhip64.so", 14))
        return 0;
    *static_cast<std::string*>(out) = info->dlpi_name;
    return 1;
}

// Tells the host runtime's counters.
void count() {
    std::string path;
    dl_iterate_phdr(find_runtime, &path);
    void* runtime = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (!runtime)
        return;
    if (auto tell = reinterpret_cast<void (*)(const char*)>(dlsym(runtime, "hipplan_host_count")))
        tell("compiler");
    dlclose(runtime);
}

using Popen = FILE* (*)(const char*, const char*);

}  // namespace

// Unversioned, so that it satisfies every caller, whatever version of the C library's it was linked with.
extern "C" __attribute__((visibility("default"))) FILE* popen(const char* command, const char* mode) {
    static Popen next = reinterpret_cast<Popen>(dlsym(RTLD_NEXT, "popen"));
    std::string text = command ? command : "";
    std::string output = output_of(text);
    if (text.find("clang") == std::string::npos || output.empty())
        return next(command, mode);
    count();
    const char* wish = getenv("HIPPLAN_HOST_COMPILER");
    if (wish && !strcmp(wish, "fail"))
        return next("echo 'host compiler: failed on request' >&2; exit 1", mode);
    std::string folder = folder_of(text);
    std::string path = output[0] == '/' || folder.empty() ? output : folder + "/" + output;
    FILE* file = fopen(path.c_str(), "wb");
    if (!file)
        return next("echo 'host compiler: the output cannot be written' >&2; exit 1", mode);
    std::string object = "hipplan stand-in object\n" + text + "\n";
    // With the zero at its end: readers of modules in memory are not told a length.
    bool written = fwrite(object.c_str(), 1, object.size() + 1, file) == object.size() + 1;
    written &= fclose(file) == 0;
    return next(written ? "exit 0" : "exit 1", mode);
}
