#include "actors/coordinator/present_hosts.hpp"
#include "actors/coordinator/state.hpp"
#include "actors/job/stage_mesh.hpp"
#include "actors/process/steady_ms.hpp"
#include "strategies/reader_shares.hpp"

#include <algorithm>

// Who joins: whose a role's name is, who is missing, who is let in, and what
// one is told that asks again.

namespace troupe {
namespace {

/// With --workers MIN:MAX the first epoch waits so long for one more.
constexpr auto first_patience = std::chrono::seconds{1};

} // namespace

caf::result<JobInfo> CoordinatorState::on(const Hello& hello) {
  if (hello.revision != message_revision)
    return caf::make_error(caf::sec::incompatible_versions,
                           to_string(hello.role)
                             + " is another build of troupe");
  // Another may lead by now, and who asks is to look for it.
  if (hello.again && options_.journal && !options_.journal->leads())
    return caf::make_error(caf::sec::request_receiver_down,
                           "no majority of voters is heard of");
  if (hello.again)
    return answer_again(hello);
  if (auto refused = refusal(hello.role);
      !refused.empty() && hello.role.kind != RoleKind::evaluator)
    return caf::make_error(caf::sec::invalid_argument, std::move(refused));
  if (const auto known = present_.find(hello.role);
      hello.incarnation > 0 && known != present_.end()
      && known->second.incarnation > hello.incarnation)
    return caf::make_error(caf::sec::invalid_argument, "another process is "
                                                         + to_string(hello.role)
                                                         + " now");
  const auto sender = self_->current_sender(); // which a promise takes
  auto promise = self_->make_response_promise<JobInfo>();
  self_->monitor(caf::actor_cast<caf::actor_addr>(sender));
  joining_.ask(hello, sender, promise, steady_ms());
  look_at_joining();
  return promise;
}

/// Answers one that knows the job: whether it is a member still.
JobInfo CoordinatorState::answer_again(const Hello& hello) {
  JobInfo info{options_.job_id, 0, {}, options_.term};
  info.supervised = supervisor_ && !is_guest(hello.role);
  const auto* dismissed = left_out_.dismissed(hello.role, hello.incarnation);
  info.over = course_.is_over() || (dismissed && dismissed->told);
  info.loss_ms = silence_.limit_ms(steady_ms());
  info.sign_ms = sign_ms_;
  if (options_.revoked)
    info.revoked = options_.revoked();
  // A row fetcher asks; a worker's control line, which is judged, does not.
  if (job_->is_read_for(hello.role.kind) && hello.incarnation == 0)
    name_readers(hello.role, info);
  if (const auto* refused = left_out_.turned_away(hello.role,
                                                  hello.incarnation))
    info.refused = *refused;
  if (is_of_old_layout(hello.role, hello.incarnation))
    info.refused = "its layers were dealt anew: it is not needed any more";
  const auto* why = left_out_.why(hello.role);
  const bool gone = !dismissed && is_gone(hello.role, hello.incarnation);
  const bool comes_back = !info.supervised
                          || left_out_.links.is_out(hello.role);
  if (comes_back && !course_.is_over() && hello.incarnation > 0 && gone)
    info.left_out = why == nullptr ? "another one took its place" : *why;
  if (info.left_out.empty())
    return info;
  info.wait_ms = left_out_.links.delay_ms(hello.role, clock_.ms());
  // A worker beside shards dials and is dialled by nobody.
  for (auto role : left_out_.links.to_probe(hello.role, present_roles()))
    if (keeps_slices(role.kind) || hello.role.kind == RoleKind::worker)
      info.probe.push_back({role, present_.at(role).links});
  return info;
}

void CoordinatorState::name_readers(RoleId worker, JobInfo& info) const {
  const auto present = present_roles();
  const auto own = readers_of(worker, present);
  for (auto reader : own)
    info.readers.push_back({reader, present_.at(reader).links});
  for (auto reader : other_readers(own, present))
    info.other_readers.push_back({reader, present_.at(reader).links});
}

/// Why a role may not join; empty: it may.
std::string CoordinatorState::refusal(RoleId role) const {
  if (role.kind != RoleKind::reader)
    return reshaping_.refusal(role);
  if (job_->options.data_access.readers == 0)
    return to_string(role)
           + ": the job was started without --readers, and its workers read "
             "for themselves";
  return is_guest(role) ? Reshaping::beyond(role) : std::string{};
}

void CoordinatorState::look_at_joining() {
  const auto now_ms = steady_ms();
  joining_.look(
    now_ms,
    [this, now_ms](RoleId role) {
      return now_ms - silence_.silent_ms(role, now_ms);
    },
    [this](RoleId role) {
      lost_.erase(role);
      // A model file need not be where the role is.
      auto sent = job_->options;
      sent.model = job_->graph.text;
      JobInfo info{options_.job_id, ++incarnations_, to_json(sent),
                   options_.term};
      info.sign_ms = sign_ms_;
      return info;
    });
  if (begun_ || membership_.state() != Membership::State::forming)
    return;
  const auto line = joining_.line(present_.size(), absent_roles(), now_ms);
  if (!line.empty())
    note(line);
}

void CoordinatorState::on(const Join& join) {
  if (join.job != options_.job_id || course_.is_over()
      || is_gone(join.role, join.incarnation)
      || is_of_old_layout(join.role, join.incarnation)
      || left_out_.dismissed(join.role, join.incarnation)
      || left_out_.turned_away(join.role, join.incarnation)) // a late copy
    return;
  if (const auto why = misfit(join); !why.empty()) {
    turn_away(join, why);
    return;
  }
  auto known = present_.find(join.role);
  if (known != present_.end() && known->second.incarnation >= join.incarnation)
    return;
  if (known != present_.end()) {
    left_out_.left_out(join.role, "another process took its place");
    remove_member(join.role, known->second.incarnation);
  }
  lost_.erase(join.role);
  const bool unlinked = left_out_.links.is_out(join.role);
  if (left_out_.back(join.role, clock_.ms())
      && (unlinked || !supervisor_ || is_guest(join.role)))
    note(to_string(join.role) + " is back");
  auto actor = caf::actor_cast<role_actor>(self_->current_sender());
  present_[join.role] = {join.incarnation,
                         actor,
                         join.endpoint,
                         join.links,
                         host_mark_of(join.links),
                         join.numeric_class};
  joining_.joined(join);
  joined_ = Clock::now();
  silence_.joined(join.role, steady_ms());
  if (job_->options.deadlines.loss_ms == 0 && is_apart(present_, join.role))
    silence_.raise_min(loss_between_hosts(job_->options).count());
  self_->monitor(actor);
  faults_.joined(join.role, actor);
  if (!is_member_kind(join.role.kind)) { // a reader is in no epoch
    faults_.whole({join.role});
    return;
  }
  admit(join.role);
  pace_signs();
  perform(membership_.join(join.role, join.incarnation, clock_.ms()));
}

/// The more there are, the less often each; the silence that counts as loss
/// follows, unless the user has said what it is.
void CoordinatorState::pace_signs() {
  const auto& own = job_->options;
  const auto members = membership_.present() + membership_.absent().size();
  const auto loss_ms = own.deadlines.loss_ms > 0 ? own.deadlines.loss_ms
                                                 : options_.silence.max_ms;
  sign_ms_ = std::max(sign_ms_, sign_period_ms(members, loss_ms));
  if (own.deadlines.loss_ms == 0 && own.processes && sign_ms_ > usual_sign_ms)
    silence_.raise_min(signs_before_loss * sign_ms_);
}

/// Who has not come is not waited for; it is taken in when it does.
void CoordinatorState::begin_without_all() {
  if (begun_ || membership_.state() != Membership::State::forming
      || !epoch_plan_.begins(present_roles())
      || Clock::now() - joined_ < first_patience)
    return;
  for (auto role : membership_.absent())
    perform(membership_.dismiss(role, clock_.ms()));
}

/// It ends with that line, or the run does.
void CoordinatorState::turn_away(const Join& join, const std::string& why) {
  if (is_unfit(join.role, why))
    left_out_.turn_away(join.role, join.incarnation,
                        "cannot take part: " + why);
  else
    fail(to_string(join.role) + ' ' + why);
}

/// What a user can do about two classes; `name`: of one of them.
std::string advice_on_class(const std::string& name) {
  return name.starts_with("PJRT")
           ? "give all the same plugin and flags for it (XLA_FLAGS, "
             "LIBTPU_INIT_ARGS)"
         : name.starts_with("CUDA") ? "use GPUs of one kind, and one CUDA"
                                    : "use machines of one class, or pin --isa";
}

/// Why it may not join any more, or its steps would be others than those of the
/// rest (PROTOCOL 21); empty: it may.
std::string CoordinatorState::misfit(const Join& join) {
  if (auto refused = refusal(join.role); !refused.empty())
    return refused;
  if (!join.data.empty() && join.data != options_.data_contents)
    return "has other data than the coordinator: --data " + job_->options.data
           + " there has other contents; give both the same files";
  if (join.role.kind != RoleKind::worker && !has_model_part(join.role.kind))
    return {};
  const bool is_first = !begun_
                        && std::ranges::none_of(present_, [](const auto& one) {
                             return one.first.kind == RoleKind::worker
                                    || has_model_part(one.first.kind);
                           });
  const bool mixes = may_mix_classes(job_->options);
  const auto& until_now = checkpoints_.numeric_classes();
  if (probes_.empty() && begun_ && !mixes && !until_now.empty()
      && until_now.back() != CheckpointKeeper::unknown_class
      && until_now.back() != join.numeric_class)
    return "computes in the numeric class " + join.numeric_class
           + ", and the job's workers until now in " + until_now.back() + ": "
           + advice_on_class(until_now.back());
  if (probes_.empty() || is_first) // whoever was before it has left
    probes_ = {{join.numeric_class, join.probe}};
  if (mixes && std::ranges::none_of(present_, [&](const auto& one) {
        return one.second.numeric_class == join.numeric_class;
      }))
    probes_[join.numeric_class] = join.probe;
  const auto known = probes_.find(join.numeric_class);
  if (known == probes_.end())
    return "computes in the numeric class " + join.numeric_class
           + ", and the workers before it in " + probes_.begin()->first + ": "
           + advice_on_class(probes_.begin()->first);
  if (known->second == join.probe)
    return {};
  return "gets other bits than the workers before it, though all are of the "
         "numeric class "
         + join.numeric_class
         + ": another build, a plug-in or a faulty processor";
}

/// Workers would wait for samples, and end for it, while the first reader still
/// looks at the data.
bool CoordinatorState::has_readers() const {
  return job_->options.data_access.readers == 0
         || std::ranges::any_of(present_, [](const auto& one) {
              return one.first.kind == RoleKind::reader;
            });
}

/// Members, and readers of the plan.
std::vector<RoleId> CoordinatorState::absent_roles() const {
  auto out = membership_.absent();
  for (const auto& one : job_->plan.of_kind(RoleKind::reader))
    if (!present_.contains(one.role))
      out.push_back(one.role);
  return out;
}

std::set<RoleId> CoordinatorState::present_members() const {
  auto out = present_roles();
  std::erase_if(out, [](RoleId x) { return !is_member_kind(x.kind); });
  return out;
}

std::set<RoleId> CoordinatorState::present_roles() const {
  std::set<RoleId> out;
  for (const auto& [role, present] : present_)
    out.insert(role);
  return out;
}

} // namespace troupe
