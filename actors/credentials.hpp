#pragma once

#include <string>

namespace troupe {

/// Certificate, key and authority of a member, as PEM text: read once from one
/// folder, whatever becomes of it afterwards.
struct Credentials {
  std::string folder; ///< empty: this process talks to itself only
  std::string authority;
  std::string certificate;
  std::string key;
};

/// Makes a job's own certificate authority and one member certificate that it
/// signs, in `folder`. Elliptic-curve keys (P-256), valid for 30 days. A folder
/// that is not there is made under another name, with mode 0700, and renamed
/// when it is whole. What is there already is kept and loaded, mode included.
/// Errors: InputError naming the file; as load_credentials().
Credentials make_credentials(const std::string& folder);

/// Reads what is there. Owner and mode are those that ssh asks for: folder and
/// files belong to this user or root, nobody else may write to them, and the
/// key nobody else may read.
/// Errors: InputError, one line, naming the file and what to do: one that is
/// missing or unreadable, or that others could have put there.
Credentials load_credentials(const std::string& folder);

} // namespace troupe
