// libnvinfer.so.10, of which a plugin sees its version and loggers alone, whose functions are the
// first of their virtual tables.

#include <cstdint>

namespace {

using Find = void (*)();
using Log = void (*)(std::int32_t severity, const char* message);

struct Logger {
  virtual void log(std::int32_t severity, const char* message) noexcept { to(severity, message); }
  virtual ~Logger() = default;
  Log to = nullptr;
};

struct Finder {
  virtual Logger* findLogger() {
    find();
    return &logger;
  }
  virtual ~Finder() = default;
  Find find = nullptr;
  Logger logger;
};

}  // namespace

extern "C" std::int32_t getInferLibVersion() { return 101601; }

/** The one finder: find() is called before a logger is found, log() with each message. */
extern "C" void* findThrough(Find find, Log log) {
  static Finder finder;
  finder.find = find;
  finder.logger.to = log;
  return &finder;
}
