#include "command/commands/library_needs.h"

#include <msda.h>

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace msda::command {
namespace {

// GLIBC_2.17 is of the kind GLIBC.
std::string_view kind_of(std::string_view version) { return version.substr(0, version.rfind('_')); }

// The dynamic section of one loaded object. The ELF specification names the entries (System V ABI,
// chapter 5) and the versions (Linux Standard Base, "Symbol Versioning").
class DynamicSection {
 public:
  DynamicSection(ElfW(Addr) base, ElfW(Dyn) const* entries) : base_(base), entries_(entries) {
    strings_ = reinterpret_cast<const char*>(address(DT_STRTAB));
  }

  std::vector<NeededLibrary> needs() const {
    std::vector<NeededLibrary> needed;
    for (ElfW(Dyn) const* entry = entries_; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_NEEDED) needed.push_back({strings_ + entry->d_un.d_val, {}});
    }
    add_versions(needed);
    return needed;
  }

 private:
  ElfW(Addr) value(ElfW(Sxword) tag) const {
    ElfW(Dyn) const* entry = entries_;
    while (entry->d_tag != DT_NULL && entry->d_tag != tag) ++entry;
    return entry->d_tag == DT_NULL ? 0 : entry->d_un.d_ptr;
  }
  // The loader of some machines replaces offsets by addresses, that of others leaves them.
  ElfW(Addr) address(ElfW(Sxword) tag) const {
    ElfW(Addr) const found = value(tag);
    return found == 0 || found >= base_ ? found : base_ + found;
  }

  void add_versions(std::vector<NeededLibrary>& needed) const {
    ElfW(Addr) at = address(DT_VERNEED);
    for (ElfW(Addr) left = value(DT_VERNEEDNUM); left > 0; --left) {
      auto const& file = *reinterpret_cast<ElfW(Verneed) const*>(at);
      auto const library = std::ranges::find(needed, strings_ + file.vn_file, &NeededLibrary::name);
      ElfW(Addr) version_at = at + file.vn_aux;
      for (int i = 0; i < file.vn_cnt && library != needed.end(); ++i) {
        auto const& version = *reinterpret_cast<ElfW(Vernaux) const*>(version_at);
        add_newest(library->versions, strings_ + version.vna_name);
        version_at += version.vna_next;
      }
      at += file.vn_next;
    }
  }

  static void add_newest(std::vector<std::string>& versions, std::string const& version) {
    auto const same = std::ranges::find(versions, kind_of(version), kind_of);
    if (same == versions.end()) {
      versions.push_back(version);
    } else if (strverscmp(same->c_str(), version.c_str()) < 0) {
      *same = version;
    }
  }

  ElfW(Addr) base_;
  ElfW(Dyn) const* entries_;
  const char* strings_ = nullptr;
};

struct Search {
  ElfW(Addr) address;
  std::vector<NeededLibrary> needs;
};

int look_at(dl_phdr_info* object, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  ElfW(Phdr) const *const begin = object->dlpi_phdr, *const end = begin + object->dlpi_phnum;
  bool const holds = std::any_of(begin, end, [&](ElfW(Phdr) const& part) {
    ElfW(Addr) const from = object->dlpi_addr + part.p_vaddr;
    return part.p_type == PT_LOAD && search.address - from < part.p_memsz;
  });
  auto const dynamic =
      std::find_if(begin, end, [](ElfW(Phdr) const& part) { return part.p_type == PT_DYNAMIC; });
  if (!holds || dynamic == end) return 0;
  auto const* const entries =
      reinterpret_cast<ElfW(Dyn) const*>(object->dlpi_addr + dynamic->p_vaddr);
  search.needs = DynamicSection(object->dlpi_addr, entries).needs();
  return 1;
}

}  // namespace

std::vector<NeededLibrary> library_needs() {
  // Not the function's address as it is here, which may be that of a stub in the command.
  void* const in_library = dlsym(RTLD_DEFAULT, "msda_version");
  auto const here = reinterpret_cast<ElfW(Addr)>(&msda_version);
  Search search{in_library == nullptr ? here : reinterpret_cast<ElfW(Addr)>(in_library), {}};
  dl_iterate_phdr(look_at, &search);
  return search.needs;
}

}  // namespace msda::command
