#include "actors/coordinator/state.hpp"

// Changes of who takes part and who keeps which slice, while the job runs
// (strategies/reshaping.hpp).

namespace troupe {
namespace {

constexpr std::chrono::seconds retire_deadline{2};

} // namespace

caf::result<Note> CoordinatorState::on(const ReshapeJob& wanted) {
  const auto refuse = [](const std::string& why) {
    return caf::make_error(caf::sec::invalid_argument, why);
  };
  Reshape wish;
  std::string mistake;
  if (!parse(wanted.what, wish, mistake))
    return refuse(mistake);
  if (!begun_)
    return refuse("the job has not begun yet");
  if (is_ending())
    return refuse("the run is ending");
  if (switch_.pending())
    return refuse("a switch of consistency is under way");
  if (wish.kind == Reshape::Kind::add && !supervisor_)
    return refuse("nobody here starts roles: start it by hand with `troupe "
                  "role worker:N` or `ps:N`, and it joins");
  auto promise = self_->make_response_promise<Note>();
  if (mistake = change(wish, promise); !mistake.empty())
    promise.deliver(refuse(mistake));
  return promise;
}

std::string CoordinatorState::change(const Reshape& wish,
                                     std::optional<Reshaper> asks) {
  std::string mistake;
  reshaping_.costs(loads_.costs());
  const auto actions = reshaping_.ask(wish, clock_.ms(), mistake);
  if (!mistake.empty())
    return mistake;
  record_.change_begins(to_string(wish), steps_, proposed_.epoch + 1,
                        Clock::now());
  reshaper_ = std::move(asks);
  perform(actions);
  return {};
}

/// A role is told to leave by a signal to its process. Which others were, and
/// whether the whole job is to end, is known only in a while.
caf::result<Note> CoordinatorState::on(const LeaveRequest& request) {
  if (request.job != options_.job_id)
    return caf::make_error(caf::sec::invalid_argument, "this is another job");
  if (is_ending())
    return Note{"the run is ending"}; // it is told when that is over
  auto promise = self_->make_response_promise<Note>();
  leaves_.ask(request, promise, clock_.ms());
  return promise;
}

void CoordinatorState::look_at_leaves() {
  if (is_ending() || switch_.pending() || reshaping_.pending())
    return;
  if (!begun_ && supervisor_) // it begins soon
    return;
  const auto verdict = leaves_.look(reshaping_.roles(), clock_.ms());
  if (verdict.kind == LeaveBook::Kind::wait)
    return;
  if (verdict.kind == LeaveBook::Kind::end_run) {
    note(verdict.reason + ": the run ends");
    on(StopRequest{verdict.why});
    return;
  }
  // There is nothing to hand over, and it may come again.
  if (!begun_ || !is_member_kind(verdict.role.kind)) {
    if (const auto found = present_.find(verdict.role); found != present_.end())
      self_->send(found->second.actor, Finish{options_.job_id});
    leaves_.answer(verdict.role, Note{"it leaves"});
    return;
  }
  Reshape wish;
  wish.kind = Reshape::Kind::remove;
  wish.from = verdict.role;
  if (const auto mistake = change(wish); mistake.empty())
    leaves_.answer(verdict.role, Note{"it leaves"});
  else
    leaves_.refuse(verdict.role, mistake);
}

void CoordinatorState::perform(const Reshaping::Actions& actions) {
  for (const auto& action : actions)
    if (const auto* x = std::get_if<Reshaping::Start>(&action)) {
      membership_.expect(x->role);
      if (supervisor_)
        self_->send(supervisor_, StartRole{x->role});
    } else if (const auto* x = std::get_if<Reshaping::Retire>(&action)) {
      retire(x->role);
    } else if (const auto* x = std::get_if<Reshaping::Answer>(&action)) {
      answer(*x);
    } else if (const auto* x = std::get_if<Reshaping::Tell>(&action)) {
      note(x->line);
    } else if (!is_ending()) {
      renew("members or slices move"); // it would only keep the end waiting
    }
}

/// Its supervisor is told first, so that its end is not taken for a death.
void CoordinatorState::retire(RoleId role) {
  role_actor actor;
  uint64_t incarnation = 0;
  if (auto known = present_.extract(role)) {
    actor = known.mapped().actor;
    incarnation = known.mapped().incarnation;
    joining_.gone(role);
    fence_ = {};
    if (async_ && role.kind == RoleKind::worker)
      leases_.worker_lost(role.index);
  }
  seals_.erase(role);
  lost_.erase(role);
  left_out_.dismiss(role, incarnation);
  if (role.kind == RoleKind::shard)
    loads_.forget(role.index);
  const auto handle = caf::actor_cast<caf::strong_actor_ptr>(self_);
  const auto dismiss = [this, role, actor] {
    const auto finish = [this, role, actor] {
      left_out_.told_to_go(role);
      if (actor)
        self_->send(actor, Finish{options_.job_id});
    };
    if (supervisor_)
      self_->request(supervisor_, retire_deadline, RetireRole{role})
        .then(finish, [finish](const caf::error&) { finish(); });
    else
      finish();
  };
  // It goes once that is written down: another coordinator would wait for it.
  journal_.left(role, [handle, dismiss] {
    caf::anon_send(caf::actor_cast<caf::actor>(handle), Completion{dismiss});
  });
  perform(membership_.dismiss(role, clock_.ms()));
}

void CoordinatorState::answer(const Reshaping::Answer& answer) {
  record_.change_ends(answer.done ? reshaping_.moved_slices() : 0,
                      answer.done ? reshaping_.moved_bytes() : 0,
                      proposed_.epoch, Clock::now());
  if (answer.done)
    journal_.changed(record_.newest_change());
  note(answer.line);
  if (!reshaper_)
    return;
  if (answer.done)
    reshaper_->deliver(Note{answer.line});
  else
    reshaper_->deliver(caf::make_error(caf::sec::runtime_error, answer.line));
  reshaper_.reset();
}

void CoordinatorState::admit(RoleId role) {
  const auto& planned = job_->plan.roles;
  if (std::ranges::none_of(planned,
                           [&](const auto& x) { return x.role == role; }))
    journal_.joined(role);
  membership_.expect(role);
  const bool pending = reshaping_.pending();
  perform(reshaping_.joining(role, clock_.ms()));
  if (reshaping_.pending() && !pending)
    record_.change_begins(to_string(role) + " joins", steps_,
                          proposed_.epoch + 1, Clock::now());
}

/// The next epoch makes the learner a replica.
void CoordinatorState::on(const CaughtUp& caught_up) {
  if (current(caught_up.fence))
    perform(reshaping_.caught_up(caught_up.role.index, clock_.ms()));
}

bool CoordinatorState::is_unfit(RoleId role, const std::string& why) {
  // One that a supervisor starts would be as unfit again; by hand another may
  // take its name. What one finds that has joined, all would find.
  if (!present_.contains(role) && (!supervisor_ || !is_planned(role))) {
    note(to_string(role) + " cannot take part: " + why);
    return true;
  }
  if (role.kind == RoleKind::reader)
    return false;
  Reshaping::Actions actions;
  const bool unfit = reshaping_.unfit(role, why, actions);
  perform(actions);
  return unfit;
}

void CoordinatorState::on(const Trouble& trouble) {
  if (trouble.job != options_.job_id || course_.is_over())
    return;
  const auto name = to_string(trouble.role) + ": ";
  const auto& line = trouble.line;
  if (!is_unfit(trouble.role,
                line.starts_with(name) ? line.substr(name.size()) : line))
    fail(line);
}

} // namespace troupe
