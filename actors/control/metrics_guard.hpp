#pragma once

#include "actors/certificates/tls_context.hpp"
#include "monitoring/page_server.hpp"

#include <memory>
#include <string>

namespace troupe {

/// Metrics that stay on the host: plain, and those who get no page cost no more
/// than DoorBudget allows.
PageGuard metrics_guard();
/// Metrics that leave it: also under TLS with this process's certificate, for
/// those who show the token of a file, which is made where there is none.
/// Errors: InputError naming the file.
PageGuard metrics_guard(std::shared_ptr<const TlsContext> tls,
                        const std::string& token_file);

} // namespace troupe
