// The functions of {fmt} that all other files call. They are compiled here alone, by an option of
// the build even where nothing in this file calls them: in each file that formats a message they
// take the compiler ten times as long as the file itself. As in every use of {fmt} without its
// library they are weak, so that programs may bring their own.
#define FMT_HEADER_ONLY
#include <fmt/format.h>
