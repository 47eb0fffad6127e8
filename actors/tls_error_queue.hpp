#pragma once

namespace troupe {

/// Tells whether TLS calls of this program go through the wrappers of
/// tls_error_queue.cpp; false until a first connection was made, and for a CAF
/// that is a shared library.
bool tls_error_queue_is_guarded();

} // namespace troupe
