#pragma once

#include <stdexcept>
#include <string>

namespace troupe {

/// A mistake found in what the user gave: the message is one line that says
/// what, where and what to do.
class InputError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// As InputError, for a mistake that flags and configuration alone reveal
/// (exit status 2 rather than 1).
class UsageError : public InputError {
public:
  using InputError::InputError;
};

} // namespace troupe
