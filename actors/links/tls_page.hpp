#pragma once

#include "actors/certificates/tls_context.hpp"
#include "monitoring/page_stream.hpp"

#include <memory>
#include <string>

/// Pages under TLS: who reads them knows the job's authority, and is no member.
namespace troupe {

/// The server's side, for PageGuard. Null: there is no memory.
std::unique_ptr<PageStream> serve_page(const TlsContext& tls, int socket);

/// The reader's: the other side must be a coordinator whose certificate the
/// authority (PEM) signed. The socket is connected and not owned.
/// Errors: InputError where that is no authority.
std::unique_ptr<PageStream> read_page(const std::string& authority, int socket);

} // namespace troupe
