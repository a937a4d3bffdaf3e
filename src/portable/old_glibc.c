// glibc 2.27 and 2.29 gave these functions new versions, which differ in how they report errors
// only. A program that is linked with a newer glibc asks for the new ones and does not start where
// they are missing, so the library and the command define the functions themselves, hidden, and
// call the versions that were there from the beginning.
#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#else
#error "MSDA_PORTABLE knows x86_64 and aarch64; add the first glibc of this architecture"
#endif

#define USE_OLDEST(type, name, parameters, arguments)         \
  __asm__(".symver oldest_" #name ", " #name "@" OLDEST);     \
  type oldest_##name parameters;                              \
  __attribute__((visibility("hidden"))) type name parameters; \
  type name parameters { return oldest_##name arguments; }

USE_OLDEST(double, exp, (double x), (x))
USE_OLDEST(double, exp2, (double x), (x))
USE_OLDEST(double, log, (double x), (x))
USE_OLDEST(double, log2, (double x), (x))
USE_OLDEST(double, pow, (double x, double y), (x, y))
USE_OLDEST(float, expf, (float x), (x))
USE_OLDEST(float, exp2f, (float x), (x))
USE_OLDEST(float, logf, (float x), (x))
USE_OLDEST(float, log2f, (float x), (x))
USE_OLDEST(float, powf, (float x, float y), (x, y))
