#include "runtime/fresh_memory.h"

#include "runtime/sanitizers.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace simt {

// The thread sanitizer takes mmap() for a write of all its bytes, which costs more than the kernel
// that uses some of them; the system's call it does not see. By munmap() it forgets what was there.
char* map_fresh(std::size_t bytes) {
  long const at = syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == -1) {
    std::fprintf(stderr, "simulated device: no memory for %zu bytes\n", bytes);
    std::abort();
  }
  return reinterpret_cast<char*>(at);
}

void unmap_fresh(char* memory, std::size_t bytes) {
  unpoison(memory, bytes);
  munmap(memory, bytes);
}

}  // namespace simt
