#include "actors/control/metrics_guard.hpp"

#include "actors/certificates/metrics_token.hpp"
#include "actors/links/tls_page.hpp"

#include <utility>

namespace troupe {

PageGuard metrics_guard(std::shared_ptr<const TlsContext> tls,
                        const std::string& token_file) {
  return {[tls = std::move(tls)](int socket) {
            return serve_page(*tls, socket);
          },
          keep_metrics_token(token_file)};
}

} // namespace troupe
