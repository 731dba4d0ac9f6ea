// A driver of virtual memory without a GPU: physical memory is a file in memory, whose descriptors are real.
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "memory/virtual_memory.h"

namespace test {

constexpr size_t kStep = size_t{2} << 20;

class FakeVirtualMemory : public ccore_cuda::VirtualMemory {
 public:
  // What range_of() returns: drivers differ.
  enum class Reports { kMappings, kReservations, kNothing };
  explicit FakeVirtualMemory(Reports reports) : reports_(reports) {}
  ~FakeVirtualMemory() override {
    for (const auto& one : files_) close(one.second.descriptor);
  }

  // What the application does.
  ccore_cuda::PhysicalMemory create(bool has_descriptors = true) {
    ccore_cuda::PhysicalMemory memory = 1;  // the lowest that is free: numbers are used again
    while (files_.count(memory)) ++memory;
    files_[memory] = {memfd_create("segment", MFD_CLOEXEC), 1, has_descriptors};
    return memory;
  }
  void reserve_range(uintptr_t base, size_t bytes) { reserved_[base] = bytes; }
  void map_at(uintptr_t base, size_t bytes, ccore_cuda::PhysicalMemory memory) {
    mapped_[base] = {bytes, memory};
    ++files_.at(memory).references;
  }
  void unmap_at(uintptr_t base) {
    const ccore_cuda::PhysicalMemory memory = mapped_.at(base).memory;
    mapped_.erase(base);
    release(memory);
  }
  // As torch's expandable segments: created, mapped, and known by its mapping alone.
  ccore_cuda::PhysicalMemory create_at(uintptr_t base, size_t bytes, bool has_descriptors = true) {
    const ccore_cuda::PhysicalMemory memory = create(has_descriptors);
    map_at(base, bytes, memory);
    release(memory);
    return memory;
  }

  // What a test asks.
  size_t live() const { return files_.size(); }
  size_t mappings() const { return mapped_.size(); }
  ino_t file_of(ccore_cuda::PhysicalMemory memory) const { return inode(files_.at(memory).descriptor); }
  ccore_cuda::PhysicalMemory memory_at(uintptr_t base) const { return mapped_.at(base).memory; }
  static ino_t inode(int descriptor) {
    struct stat status{};
    return fstat(descriptor, &status) == 0 ? status.st_ino : 0;
  }
  bool refuses_exports = false;

  bool retain(uintptr_t address, ccore_cuda::PhysicalMemory* memory) override {
    const auto* const found = mapping_around(address);
    if (!found) return false;
    *memory = found->second.memory;
    ++files_.at(*memory).references;
    return true;
  }
  void release(ccore_cuda::PhysicalMemory memory) override {
    File& file = files_.at(memory);
    if (--file.references > 0) return;
    close(file.descriptor);
    files_.erase(memory);
  }
  bool range_of(uintptr_t address, ccore_cuda::AddressRange* range) override {
    const auto* const found = mapping_around(address);
    if (!found || reports_ == Reports::kNothing) return false;
    *range = {found->first, found->second.bytes};
    if (reports_ == Reports::kMappings) return true;
    for (const auto& one : reserved_) {
      if (one.first <= address && address < one.first + one.second) *range = {one.first, one.second};
    }
    return true;
  }
  size_t granularity() const override { return kStep; }
  bool has_descriptors(ccore_cuda::PhysicalMemory memory) override { return files_.at(memory).has_descriptors; }
  int export_descriptor(ccore_cuda::PhysicalMemory memory) override {
    return refuses_exports ? -1 : dup(files_.at(memory).descriptor);
  }
  bool import_descriptor(int descriptor, ccore_cuda::PhysicalMemory* memory) override {
    *memory = create();
    File& file = files_.at(*memory);
    close(file.descriptor);
    file.descriptor = dup(descriptor);
    return file.descriptor >= 0;
  }
  uintptr_t map(const std::vector<ccore_cuda::Piece>& pieces) override {
    const uintptr_t base = next_;
    for (const ccore_cuda::Piece& piece : pieces) {
      map_at(next_, piece.bytes, piece.memory);
      next_ += piece.bytes;
    }
    next_ += kStep;
    return base;
  }
  void unmap(uintptr_t address, size_t bytes) override {
    for (uintptr_t at = address; at < address + bytes;) {
      const size_t step = mapped_.at(at).bytes;
      unmap_at(at);
      at += step;
    }
  }

 private:
  struct File {
    int descriptor;
    int references;
    bool has_descriptors;
  };
  struct Mapping {
    size_t bytes;
    ccore_cuda::PhysicalMemory memory;
  };
  const std::pair<const uintptr_t, Mapping>* mapping_around(uintptr_t address) const {
    for (const auto& one : mapped_) {
      if (one.first <= address && address < one.first + one.second.bytes) return &one;
    }
    return nullptr;
  }

  const Reports reports_;
  std::map<ccore_cuda::PhysicalMemory, File> files_;
  std::map<uintptr_t, size_t> reserved_;
  std::map<uintptr_t, Mapping> mapped_;
  uintptr_t next_ = uintptr_t{1} << 44;
};

}  // namespace test
