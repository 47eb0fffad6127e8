#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace troupe {

/// Values of one type in order: a vector, or a view of memory that others own
/// (a mapped file), which it keeps alive. A view is read only: what changes a
/// column makes it a vector first.
template <class T>
class Column {
public:
  using value_type = T;
  using const_iterator = const T*;

  Column() = default;
  Column(std::vector<T> values) : own_(std::move(values)) {}
  Column(std::initializer_list<T> values) : own_(values) {}
  Column(std::shared_ptr<const void> owner, std::span<const T> view)
    : owner_(std::move(owner)), view_(view) {}

  const T* data() const { return owner_ ? view_.data() : own_.data(); }
  size_t size() const { return owner_ ? view_.size() : own_.size(); }
  bool empty() const { return size() == 0; }
  bool is_view() const { return owner_ != nullptr; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  const T& operator[](size_t i) const { return data()[i]; }

  T* data() { return own().data(); }
  T* begin() { return own().data(); }
  T* end() { return own().data() + own_.size(); }
  T& operator[](size_t i) { return own()[i]; }
  void resize(size_t count) { own().resize(count); }
  void push_back(const T& value) { own().push_back(value); }

  /// Keeps the first `at` values and returns the others. A view is not copied.
  Column cut(size_t at) {
    if (owner_) {
      Column tail{owner_, view_.subspan(at)};
      view_ = view_.first(at);
      return tail;
    }
    Column tail{
      std::vector<T>(own_.begin() + static_cast<ptrdiff_t>(at), own_.end())};
    own_.resize(at);
    return tail;
  }

  friend bool operator==(const Column& a, const Column& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

private:
  std::vector<T>& own() {
    if (owner_) {
      own_.assign(view_.begin(), view_.end());
      owner_.reset();
      view_ = {};
    }
    return own_;
  }

  std::shared_ptr<const void> owner_;
  std::span<const T> view_;
  std::vector<T> own_;
};

} // namespace troupe
