#include "actors/links/link_proxy.hpp"

#include "actors/wire/error_line.hpp"

#include <utility>

namespace troupe {
namespace {

template <class Message>
bool send_if(const caf::message& content, MessageLink& link) {
  if (!content.match_elements<Message>())
    return false;
  link.send(content.get_as<Message>(0));
  return true;
}

/// Sends a message of one of the types that travel over links.
template <size_t... Is>
bool send_any(const caf::message& content, MessageLink& link,
              std::index_sequence<Is...>) {
  return (send_if<std::variant_alternative_t<Is, LinkMessage>>(content, link)
          || ...);
}

} // namespace

LinkProxy::LinkProxy(caf::actor_config& config,
                     std::shared_ptr<MessageLink> link)
  : caf::actor_proxy(config), link_(std::move(link)) {}

bool LinkProxy::enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) {
  const auto& content = what->content();
  constexpr auto all =
    std::make_index_sequence<std::variant_size_v<LinkMessage>>{};
  if (!send_any(content, *link_, all))
    bounce(what); // a request would wait for its answer
  return true;
}

void LinkProxy::kill_proxy(caf::execution_unit* host, caf::error why) {
  cleanup(std::move(why), host);
}

caf::strong_actor_ptr make_link_proxy(caf::actor_system& system,
                                      std::shared_ptr<MessageLink> link) {
  caf::actor_config config;
  return caf::make_actor<LinkProxy, caf::strong_actor_ptr>(
    system.next_actor_id(), system.node(), &system, config, std::move(link));
}

uint64_t queued_bytes(const caf::strong_actor_ptr& peer) {
  const auto* proxy =
    dynamic_cast<const LinkProxy*>(caf::actor_cast<caf::abstract_actor*>(peer));
  return proxy == nullptr ? 0 : proxy->link().counts().queued_bytes;
}

void deliver(LinkMessage&& message, const caf::strong_actor_ptr& proxy,
             const caf::strong_actor_ptr& target) {
  std::visit(
    [&](auto& x) {
      target->enqueue(proxy, caf::make_message_id(),
                      caf::make_message(std::move(x)), nullptr);
    },
    message);
}

void end_link_proxy(const caf::strong_actor_ptr& proxy,
                    const std::string& line) {
  auto* actor = caf::actor_cast<caf::abstract_actor*>(proxy);
  static_cast<LinkProxy*>(actor)->kill_proxy(
    nullptr, caf::make_error(caf::sec::remote_lookup_failed, line));
}

std::string why_link_ended(const caf::error& reason) {
  return line_of(reason);
}

} // namespace troupe
