#include "options.h"

#include <getopt.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace ccore_perf {
namespace {

constexpr NamedDtype kDtypes[] = {{CC_INT8, "int8"},         {CC_UINT8, "uint8"},        {CC_INT32, "int32"},
                                  {CC_UINT32, "uint32"},     {CC_INT64, "int64"},        {CC_UINT64, "uint64"},
                                  {CC_FLOAT16, "half"},      {CC_FLOAT32, "float"},      {CC_FLOAT64, "double"},
                                  {CC_BFLOAT16, "bfloat16"}, {CC_FLOAT8_E4M3, "f8e4m3"}, {CC_FLOAT8_E5M2, "f8e5m2"}};
constexpr NamedRedop kRedops[] = {
    {CC_SUM, "sum"}, {CC_PROD, "prod"}, {CC_MAX, "max"}, {CC_MIN, "min"}, {CC_AVG, "avg"}};

const option kLong[] = {{"nthreads", required_argument, nullptr, 't'},
                        {"ngpus", required_argument, nullptr, 'g'},
                        {"minbytes", required_argument, nullptr, 'b'},
                        {"maxbytes", required_argument, nullptr, 'e'},
                        {"stepbytes", required_argument, nullptr, 'i'},
                        {"stepfactor", required_argument, nullptr, 'f'},
                        {"iters", required_argument, nullptr, 'n'},
                        {"agg_iters", required_argument, nullptr, 'm'},
                        {"warmup_iters", required_argument, nullptr, 'w'},
                        {"parallel_init", required_argument, nullptr, 'p'},
                        {"check", required_argument, nullptr, 'c'},
                        {"op", required_argument, nullptr, 'o'},
                        {"datatype", required_argument, nullptr, 'd'},
                        {"root", required_argument, nullptr, 'r'},
                        {"blocking", required_argument, nullptr, 'z'},
                        {"cudagraph", required_argument, nullptr, 'G'},
                        {"report_cputime", required_argument, nullptr, 'C'},
                        {"average", required_argument, nullptr, 'a'},
                        {"local_register", required_argument, nullptr, 'R'},
                        {"timeout", required_argument, nullptr, 'T'},
                        {"help", no_argument, nullptr, 'h'},
                        {nullptr, 0, nullptr, 0}};

[[noreturn]] void refuse(char flag, const std::string& value, const std::string& expected) {
  throw UsageError(std::string("-") + flag + " " + value + ": " + expected);
}

int64_t number(char flag, const char* value, int64_t least, int64_t most) {
  char* end = nullptr;
  errno = 0;
  const long long parsed = std::strtoll(value, &end, 10);
  if (end == value || *end != '\0' || errno != 0 || parsed < least || parsed > most) {
    refuse(flag, value, "expected a number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return parsed;
}

size_t bytes(char flag, const char* value) {
  char* end = nullptr;
  errno = 0;
  const double parsed = std::strtod(value, &end);
  double unit = 1;
  if (*end != '\0') {
    const char* const units = "KMGT";
    const char* at = std::strchr(units, std::toupper(static_cast<unsigned char>(*end)));
    const bool tail = end[1] == '\0' || ((end[1] == 'B' || end[1] == 'b') && end[2] == '\0');
    if (!at || !tail) refuse(flag, value, "expected bytes, such as 8, 64K, 1M or 2G");
    for (long i = 0; i <= at - units; ++i) unit *= 1024;
  }
  if (end == value || !(parsed >= 0) || parsed * unit > 1e15) refuse(flag, value, "expected bytes, such as 8 or 64K");
  return static_cast<size_t>(parsed * unit);
}

// What a GPU build can do and this one cannot.
void only(char flag, const char* value, const char* allowed, const char* why) {
  if (std::strcmp(value, allowed) != 0) refuse(flag, value, std::string("only ") + allowed + " is supported: " + why);
}

template <typename Row, size_t N>
std::vector<Row> select(char flag, const std::string& name, const Row (&rows)[N]) {
  std::vector<Row> chosen;
  std::string known = "all";
  for (const Row& row : rows) {
    known += std::string(", ") + row.name;
    if (name == "all" || name == row.name) chosen.push_back(row);
  }
  if (chosen.empty()) refuse(flag, name, "expected one of " + known);
  return chosen;
}

void apply(Options* options, char flag, const char* value) {
  constexpr int64_t kMany = 1000000000;
  switch (flag) {
    case 'b':
      options->min_bytes = bytes(flag, value);
      break;
    case 'e':
      options->max_bytes = bytes(flag, value);
      break;
    case 'i':
      options->step_bytes = bytes(flag, value);
      break;
    case 'f':
      options->step_factor = static_cast<size_t>(number(flag, value, 1, kMany));
      break;
    case 'n':
      options->iterations = static_cast<int>(number(flag, value, 1, kMany));
      break;
    case 'w':
      options->warmup_iterations = static_cast<int>(number(flag, value, 0, kMany));
      break;
    case 'c':
      options->check = number(flag, value, 0, kMany) != 0;
      break;
    case 'a':
      options->average = static_cast<int>(number(flag, value, 0, 3));
      break;
    case 'T':
      options->timeout_s = number(flag, value, 0, kMany);
      break;
    case 'r':
      options->root = kEveryRoot;
      if (std::strcmp(value, "all") != 0) options->root = static_cast<int>(number(flag, value, kEveryRoot, kMany));
      break;
    case 'o':
      options->redops = select(flag, value, kRedops);
      break;
    case 'd':
      options->dtypes = select(flag, value, kDtypes);
      break;
    case 't':
      return only(flag, value, "1", "start more ranks instead");
    case 'g':
      return only(flag, value, "1", "one rank per process; start more ranks instead");
    case 'm':
      return only(flag, value, "1", "operations are not aggregated");
    case 'G':
      return only(flag, value, "0", "there are no CUDA graphs in host memory");
    case 'C':
      return only(flag, value, "0", "operations block, so CPU time is the time");
    case 'R':
      options->registered = number(flag, value, 0, 1) == 1;
      break;
    default:  // p and z change nothing here: one process, always blocking
      number(flag, value, 0, kMany);
  }
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  options.dtypes = {{CC_FLOAT32, "float"}};
  options.redops = {{CC_SUM, "sum"}};
  optind = 1;
  opterr = 0;
  while (true) {
    const int flag = getopt_long(argc, argv, ":t:g:b:e:i:f:n:m:w:p:c:o:d:r:z:G:C:a:R:T:h", kLong, nullptr);
    if (flag == -1) break;
    if (flag == 'h') {
      options.help = true;
      return options;
    }
    if (flag == '?' || flag == ':') {
      const std::string text = argv[optind - 1];
      throw UsageError(text + (flag == '?' ? ": unknown option" : ": a value is missing"));
    }
    apply(&options, static_cast<char>(flag), optarg);
  }
  if (optind < argc) throw UsageError(std::string(argv[optind]) + ": unexpected argument");
  if (options.max_bytes < options.min_bytes) throw UsageError("-e is smaller than -b");
  if (options.step_factor == 1 && options.step_bytes == 0) throw UsageError("-i 0 never reaches -e");
  if (options.step_factor > 1 && options.min_bytes == 0 && options.max_bytes > 0) {
    throw UsageError("-b 0 with -f never reaches -e");
  }
  return options;
}

std::string usage_text(const char* program) {
  return std::string("usage: ") + program +
         " [-b minbytes] [-e maxbytes] [-i stepbytes | -f stepfactor] [-n iters] [-w warmup_iters]\n"
         "       [-c 0|1] [-o sum|prod|max|min|avg|all] [-d "
         "int8|uint8|int32|uint32|int64|uint64|half|float|double|"
         "bfloat16|f8e4m3|f8e5m2|all]\n"
         "       [-r root|all] [-a 0 rank 0 | 1 mean | 2 min | 3 max] [-R 0 | 1 registered buffers] [-T timeout_s]\n"
         "       [-g 1] [-t 1] [-h]\n"
         "Ranks come from mpirun (Open MPI, MPICH), srun or torchrun. Ranks on several hosts need\n"
         "CCORE_ROOT_ADDR (an address of rank 0's host), CCORE_ROOT_PORT and CCORE_JOB_SECRET in the\n"
         "environment of all.\n";
}

}  // namespace ccore_perf
