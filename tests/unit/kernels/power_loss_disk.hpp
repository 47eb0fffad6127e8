#pragma once

#include "kernels/files/file_system.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>

/// Carries calls out and notes what a disk would have of them: the bytes of a
/// file that were synced, the names of a folder that were synced. What was not
/// may be there after a loss of power or not, each by itself.
class PowerLossDisk : public troupe::FileSystem {
public:
  /// What `root` holds now is on the disk.
  explicit PowerLossDisk(std::string root);

  /// The power goes at this call, counted from 0: it and all later ones fail.
  void lose_power_at(uint64_t call) { last_ = call; }
  uint64_t calls() const { return calls_; }

  /// Puts into the folder `into` what is there after the loss. Without a
  /// generator nothing is that was not synced.
  void after_loss(const std::string& into, std::mt19937* random) const;

  int open(const char* path, int flags, mode_t mode) override;
  ssize_t write(int handle, const void* bytes, size_t size) override;
  int fsync(int handle) override;
  int close(int handle) override;
  int rename(const char* from, const char* to) override;
  int unlink(const char* path) override;
  int mkdir(const char* path, mode_t mode) override;
  int rmdir(const char* path) override;

private:
  struct Node {
    bool folder = false;
    std::string bytes;  ///< file: written
    std::string synced; ///< file
    std::map<std::string, std::shared_ptr<Node>> names;
    std::map<std::string, std::shared_ptr<Node>> synced_names;
  };
  bool fails();
  std::string relative(const std::string& path) const;
  std::shared_ptr<Node> folder_of(const std::string& path) const;
  std::shared_ptr<Node> node_of(const std::string& path) const;
  static std::shared_ptr<Node> load(const std::string& path);
  static void put(const Node& node, const std::string& path,
                  std::mt19937* random);

  std::string root_;
  std::shared_ptr<Node> top_;
  std::map<int, std::shared_ptr<Node>> handles_;
  uint64_t calls_ = 0;
  uint64_t last_ = ~uint64_t{0};
};
