#pragma once

#include <string>
#include <string_view>

namespace troupe {

/// Whether a place is an address elsewhere: http://, https:// or s3://.
bool is_url(std::string_view place);

/// A URL as a message may show it: without what follows a ?, which may be a
/// secret. A path of this machine stays as it is.
std::string shown_place(std::string_view place);

/// What is beside `url`: the name follows its last slash, as a path of this
/// machine would follow a folder's. A name that is a URL stands for itself.
std::string beside_url(std::string_view url, std::string_view name);

/// Checks what is written of an address.
/// Errors: UsageError that shows nothing secret (a user's name or password in
/// it, a space or a control character, no host or bucket, a #).
void check_url(std::string_view url);

/// The same of one that stands in a specification, which journals and
/// checkpoints keep. Errors: also a query, which may be a secret.
void check_kept_url(std::string_view url);

} // namespace troupe
