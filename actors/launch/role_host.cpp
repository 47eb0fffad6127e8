#include "actors/launch/role_host.hpp"

#include "actors/certificates/certificate_renewal.hpp"
#include "actors/compute/leaf_computer.hpp"
#include "actors/compute/part_probe.hpp"
#include "actors/control/actor_node.hpp"
#include "actors/control/control_line.hpp"
#include "actors/control/peer_directory.hpp"
#include "actors/control/refused_members.hpp"
#include "actors/job/data_fingerprint.hpp"
#include "actors/job/slice_update.hpp"
#include "actors/job/stage_mesh.hpp"
#include "actors/job/update_watch.hpp"
#include "actors/launch/job_request.hpp"
#include "actors/launch/role_links.hpp"
#include "actors/process/own_process.hpp"
#include "actors/reader/reader.hpp"
#include "actors/reader/row_fetcher.hpp"
#include "actors/replica/link_groups.hpp"
#include "actors/replica/replica_role.hpp"
#include "actors/role/leave.hpp"
#include "actors/role/link_terms.hpp"
#include "actors/shard/kept_memory.hpp"
#include "actors/shard/shard.hpp"
#include "actors/sockets/addresses.hpp"
#include "actors/sockets/cut_connections.hpp"
#include "actors/stage/stage.hpp"
#include "actors/wire/ends_with_scope.hpp"
#include "actors/wire/error_line.hpp"
#include "actors/worker/dense_reduced_worker.hpp"
#include "actors/worker/sharded_worker.hpp"
#include "actors/worker/worker.hpp"
#include "kernels/base/error.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/files/file_pages.hpp"
#include "kernels/files/safetensors.hpp"
#include "kernels/graph/sleep_model.hpp"
#include "strategies/workers_meet.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <iostream>
#include <optional>

namespace troupe {

namespace {

/// Of a role that keeps slices, in memory which peers of its host may read.
std::shared_ptr<ShardStore> store_of(const RoleContext& context,
                                     int state_descriptor) {
  const auto& job = *context.job;
  if (!job.plan.keeps(context.role))
    return nullptr;
  std::vector<uint32_t> slices;
  for (const auto& role : job.plan.roles)
    if (role.role == context.role)
      slices = role.slices;
  auto store = std::make_shared<ShardStore>(job, slices, context.job_id,
                                            state_descriptor);
  if (context.links && context.links->memory() && state_descriptor >= 0)
    context.links->memory()->add(store->memory().data(), store->memory().size(),
                                 state_descriptor);
  return store;
}

} // namespace

caf::strong_actor_ptr spawn_role(caf::actor_system& system,
                                 const RoleContext& context,
                                 int state_descriptor) {
  const auto& job = *context.job;
  if (job.updates)
    job.updates->tell(
      [coordinator = context.coordinator, id = context.job_id](Spreads x) {
        x.job = id;
        caf::anon_send(coordinator, std::move(x));
      });
  caf::strong_actor_ptr actor;
  if (has_model_part(context.role.kind)) {
    actor = caf::actor_cast<caf::strong_actor_ptr>(
      spawn_stage(system, context, store_of(context, state_descriptor)));
  } else if (context.role.kind == RoleKind::shard) {
    actor = caf::actor_cast<caf::strong_actor_ptr>(
      spawn_shard(system, context, store_of(context, state_descriptor)));
  } else if (context.role.kind == RoleKind::reader) {
    actor =
      caf::actor_cast<caf::strong_actor_ptr>(spawn_reader(system, context));
  } else if (job.plan.dense_reduced) {
    actor = caf::actor_cast<caf::strong_actor_ptr>(
      spawn_dense_reduced_worker(system, context));
  } else if (job.goes_by_parts()) {
    actor = caf::actor_cast<caf::strong_actor_ptr>(
      spawn_sharded_worker(system, context));
  } else if (job.plan.owner_kind == RoleKind::shard) {
    actor =
      caf::actor_cast<caf::strong_actor_ptr>(spawn_worker(system, context));
  } else {
    actor =
      caf::actor_cast<caf::strong_actor_ptr>(spawn_replica(system, context));
  }
  const auto name = local_name(context.job_id, context.role);
  system.registry().erase(name); // who had it before would keep it
  system.registry().put(name, actor);
  return actor;
}

namespace {

/// A role that does so by itself.
bool reads_samples(const Job& job, RoleKind kind) {
  return (kind == RoleKind::worker && !job.is_read_for(kind))
         || has_model_part(kind) || kind == RoleKind::reader;
}

} // namespace

void send_join(const RoleContext& context, const caf::strong_actor_ptr& actor,
               const std::string& endpoint, const std::string& links) {
  Join join{context.job_id, context.role, context.incarnation, endpoint, {}, {},
            links};
  if (context.own_process) {
    const auto own = own_process();
    join.host = own.host;
    join.process = own.process;
  }
  if (context.role.kind == RoleKind::worker
      || has_model_part(context.role.kind)) {
    const auto device = context.job->device_of(context.role);
    const auto id = parse_device(device);
    // Processors of one process are one machine's, with one build: it would
    // take a second model's memory to find them alike.
    if (context.own_process || id.kind != DeviceId::Kind::cpu)
      join.probe = probe_hash(*context.job, device);
    join.numeric_class = numeric_class(id, context.job->precision(),
                                       &context.job->graph);
  }
  if (context.own_process && reads_samples(*context.job, context.role.kind))
    join.data = data_contents(*context.job, *context.data.train);
  caf::send_as(caf::actor_cast<role_actor>(actor), context.coordinator,
               std::move(join));
}

namespace {

/// Made-up samples: any will do, as long as all workers have the same.
void fill_probe(const Job& job, uint32_t rows, BatchMemory& memory) {
  const auto& graph = job.worker_graph;
  const auto ids = job.tables.empty()
                     ? graph.sample.vocabulary
                     : std::min<uint64_t>(graph.sample.vocabulary,
                                          job.max_table_rows());
  const auto labels = rows * graph.labels();
  for (size_t i = 0; i < rows * graph.features(); ++i)
    memory.features()[i] = static_cast<float>((i * 7919) % 256) / 255.0f;
  for (size_t i = 0; i < rows * graph.ids(); ++i)
    memory.ids()[i] = static_cast<int32_t>((i * 7919) % ids);
  for (size_t i = 0; i < labels; ++i)
    if (graph.classes() > 0)
      memory.labels()[i] = static_cast<int32_t>(i % graph.classes());
    else
      memory.targets()[i] = static_cast<float>(i % 7);
}

} // namespace

std::string probe_hash(const Job& job, const std::string& device) {
  // A GPU with a part of the model may have no room for all of it.
  const bool on_gpus = !on_processors(job.options)
                       && has_model_part(job.plan.computing())
                       && !sleep_model(job.graph.text);
  const bool by_parts = job.goes_by_parts() || on_gpus;
  constexpr uint32_t few = 2;
  const auto rows = on_gpus ? std::min(job.max_rows(), few) : job.max_rows();
  const auto& graph = job.worker_graph;
  BatchMemory memory{graph, rows};
  fill_probe(job, rows, memory);
  if (by_parts)
    return probe_of_parts(job, parse_device(device), memory.batch(rows));
  Buffer parameters{job.layout.total};
  Buffer gradient{job.layout.total};
  parameters.fill(0);
  gradient.fill(0);
  for (uint32_t i = 0; i < graph.parameters.size(); ++i)
    initialize(graph, 1, i, 0, parameters.data() + job.layout.offsets[i],
               graph.parameters[i].size());
  make_replica(graph, parse_device(device), rows, job.precision())
    ->gradient(parameters.data(), memory.batch(rows), gradient.data());
  // By itself, too: of many a first step's update only the sign counts.
  const auto of_gradient = sha256(std::as_bytes(gradient.span()));
  uint64_t longest = 1;
  for (const auto& slice : job.plan.slices)
    longest = std::max(longest, slice.count);
  Buffer state{
    std::max<size_t>(1, state_slots(job.options.rule.kind) * longest)};
  whole_update(job, nullptr, {0, 0, rows},
               [&](const Slice& slice, UpdateArgs& args) {
                 const auto at = job.flat_offset(slice);
                 state.fill(0); // that of one slice after the other
                 args.gradient_sum = gradient.data() + at;
                 args.in = args.out = parameters.data() + at;
                 args.state_in = args.state_out = state.data();
                 args.state_stride = longest;
               });
  const auto both = of_gradient + sha256(std::as_bytes(parameters.span()));
  return sha256(std::as_bytes(std::span{both}));
}

namespace {

/// Who the process is, as its certificate says.
MemberName process_name(const RoleProcessOptions& options) {
  if (options.paired)
    return {MemberName::Kind::sharded, options.role.index};
  return name_of(options.role);
}

/// The coordinator names no code for this host to run: who starts the role
/// does.
void check_code(const std::string& flag, const std::string& named,
                const std::string& own) {
  if (!named.empty() && named != own)
    throw InputError("the job has " + flag + named
                     + (own.empty() ? ", and this role was started without it"
                                    : ", and this role has " + flag + own)
                     + ": give each role the flag itself");
}

void check_code(const JobOptions& job, const RoleProcessOptions& options) {
  check_code("--plugin ", job.plugin, options.plugin);
  if (options.role.kind != RoleKind::worker)
    return; // it has no device
  for (const auto& device : job.devices)
    check_code("--devices pjrt:", plugin_of_device(device),
               options.device_plugin);
}

/// A process is the roles that a process of its strategy is.
void check_pairing(const JobOptions& job, const RoleProcessOptions& options) {
  const bool paired = job.strategy == Strategy::fully_sharded;
  if (paired == options.paired)
    return;
  const auto number = std::to_string(options.role.index);
  const auto strategy = to_string(job.strategy);
  throw InputError(
    options.paired
      ? "role sharded:" + number + ": the job's --strategy " + strategy
          + " has workers and shards of their own: start " + "worker:" + number
          + ", or another role of its plan"
      : "role " + to_string(options.role) + ": the job's --strategy " + strategy
          + " has each worker in one process with the shard of its number: "
            "start sharded:"
          + number);
}

/// A worker's or reader's data, which must be what the coordinator has.
JobData load_own_data(const JobOptions& options) {
  auto data = load_job_data(options);
  if (data.train->samples() != options.samples
      || data.train->shape != options.sample)
    throw InputError(
      "--data " + options.data + " has " + std::to_string(data.train->samples())
      + " samples to train on here, but " + std::to_string(options.samples)
      + " or another shape at the coordinator: copy the same "
        "files to both machines");
  return data;
}

/// Who was not told where to listen does so where the coordinator sees it: on
/// the address that leads there.
std::string listen_of(const RoleProcessOptions& options) {
  if (!options.listen.empty())
    return options.listen;
  const auto own =
    own_address_towards(parse_endpoints(options.coordinator).front().host);
  return to_string(Endpoint{own.empty() ? "127.0.0.1" : own, 0});
}

/// A role that listens on 0.0.0.0 is reached by the address that leads to the
/// coordinator.
std::string reached_as(const std::string& host,
                       const RoleProcessOptions& options) {
  const auto number = SocketAddress::of_number(host, 0);
  if (!number || !number->is_any())
    return host;
  auto own =
    own_address_towards(parse_endpoints(options.coordinator).front().host);
  if (own.empty())
    throw InputError("--listen " + options.listen
                     + ": no address of this machine leads to the coordinator "
                       "at "
                     + options.coordinator
                     + "; name the one that others reach");
  // 0.0.0.0 takes no connection of IPv6; [::] takes both kinds.
  if (host == "0.0.0.0" && own.find(':') != std::string::npos)
    throw InputError("--listen " + options.listen + ": the coordinator at "
                     + options.coordinator
                     + " is reached over IPv6; add --listen [::]:0");
  return own;
}

LinkOptions link_options(const Job& job, const RoleProcessOptions& options,
                         std::shared_ptr<const TlsContext> tls) {
  LinkOptions wanted;
  wanted.tls = std::move(tls);
  wanted.listen = parse_endpoint(options.listen).value_or(Endpoint{}).host;
  wanted.announce = reached_as(wanted.listen, options);
  wanted.proxy = options.link_proxy;
  wanted.patience = loss_between_hosts(job.options);
  if (keeps_slices(job.plan.owner_kind))
    wanted.memory = LinkMemory::make();
  wanted.log =
    [role = to_string(process_name(options))](const std::string& line) {
      std::cerr << role + ": " + line + '\n';
    };
  const auto& link = job.options.link;
  const auto& encryption = job.options.link_encryption;
  wanted.link = link == "tcp"   ? LinkChoice::tcp
                : link == "shm" ? LinkChoice::shm
                                : LinkChoice::automatic;
  wanted.encryption = encryption == "on"    ? LinkEncryption::on
                      : encryption == "off" ? LinkEncryption::off
                                            : LinkEncryption::automatic;
  return wanted;
}

} // namespace

namespace {

/// A role that is left out and lives joins again.
ControlLineOptions line_options(caf::actor_system& system,
                                const RoleProcessOptions& options, RoleId role,
                                const std::shared_ptr<TlsContext>& tls,
                                const std::shared_ptr<LinkTrials>& trials,
                                const Waiting& waiting) {
  ControlLineOptions line;
  line.first = caf::actor_cast<coordinator_actor>(
    connect(system, options.coordinator, options.connect_deadline_ms, waiting));
  line.address = options.coordinator;
  line.role = role;
  line.revoked = refuse_members(tls);
  line.probe = [trials, role](const std::vector<LinkedRole>& others,
                              std::function<void(bool)> reached) {
    trials->run(role, others, std::move(reached));
  };
  line.tell = [](const std::string& text) { std::cerr << text + '\n'; };
  line.hang_up = hang_up_on(options.coordinator);
  line.cut_off = cut_off_from(options.coordinator);
  if (!options.by_hand) // who starts the next one ends this role, too
    line.comes = [] { return true; };
  return line;
}

CertificateRenewal::Options renewal_of(const ActorConfig& config,
                                       const RoleProcessOptions& options) {
  return {config.tls(),
          options.coordinator,
          [role = to_string(process_name(options))](const std::string& news) {
            std::cerr << role + ": " + news + '\n';
          },
          {}};
}

/// What the role's fault trigger does to its links, and tells.
void expect_faults(const RoleContext& context, const std::string& coordinator) {
  const auto control = parse_endpoints(coordinator);
  context.faults->cut_control = [control] { cut_connections(control); };
  if (const auto links = context.links)
    context.faults->cut = [links](uint32_t which) { links->cut(which); };
  else
    context.faults->cut = [control](uint32_t which) {
      cut_other_connection(control, which);
    };
  context.faults->struck = [coordinator = context.coordinator,
                            job = context.job_id,
                            role = context.role](StepPhase phase) {
    caf::anon_send(coordinator, FaultStruck{job, role, phase});
  };
}

/// Lets workers reach a shard, and stages one another; returns HOST:PORT.
std::string open_shard(caf::actor_system& system, const RoleContext& context,
                       const RoleProcessOptions& options,
                       const caf::strong_actor_ptr& actor) {
  context.links->accept(local_name(context.job_id, context.role),
                        link_terms(*context.job, context.role), actor);
  const auto bound = *parse_endpoint(publish(system, actor, options.listen));
  return to_string(Endpoint{reached_as(bound.host, options), bound.port});
}

/// The coordinator's handle, for as long as the role lives.
coordinator_actor
reach_coordinator(caf::actor_system& system, const RoleProcessOptions& options,
                  RoleId role, const std::shared_ptr<TlsContext>& tls,
                  const std::shared_ptr<LinkTrials>& trials,
                  const Waiting& waiting) {
  return spawn_control_line(system, line_options(system, options, role, tls,
                                                 trials, waiting));
}

const std::string undoes_steps = "its death will undo steps: ";

/// A role of this process: its line to the coordinator, and its actor. The
/// options outlive it.
class HostedRole {
public:
  HostedRole(caf::actor_system& system, const RoleProcessOptions& options,
             RoleId role, const std::shared_ptr<TlsContext>& tls,
             const std::shared_ptr<LinkTrials>& trials, const Waiting& waiting)
    : options_(options), state_descriptor_(options.state_descriptor) {
    context_.role = role;
    context_.coordinator = reach_coordinator(system, options, role, tls, trials,
                                             waiting);
    line_end_.actor =
      caf::actor_cast<caf::strong_actor_ptr>(context_.coordinator);
  }
  HostedRole(const HostedRole&) = delete;
  HostedRole& operator=(const HostedRole&) = delete;

  /// Asks what it is to do; memory that outlives the process is made where it
  /// needs some and was given none.
  void ask(caf::scoped_actor& self, const Waiting& waiting) {
    info_ = ask_for_job(self, context_.coordinator, context_.role);
    const bool keeps = keeps_slices(context_.role.kind)
                       && !(has_model_part(context_.role.kind)
                            && has_served_stages(job_from_json(info_.options)));
    if (keeps && state_descriptor_ < 0) {
      kept_.emplace(options_.coordinator, context_.role);
      kept_->belong_to(info_.job);
      state_descriptor_ = kept_->descriptor();
      if (!kept_->why().empty())
        waiting.tell(undoes_steps + kept_->why());
    }
    context_.job_id = info_.job;
    context_.incarnation = info_.incarnation;
    context_.sign_ms = std::max(usual_sign_ms, info_.sign_ms);
    context_.metrics = std::make_shared<MetricRegistry>();
    context_.own_process = true;
    context_.reports_process = context_.role == options_.role;
    context_.faults = std::make_shared<FaultTrigger>(true,
                                                     options_.allow_faults);
  }

  /// Plays it, with the data of its process.
  void begin(caf::actor_system& system, std::shared_ptr<const Job> job,
             const JobData& data, RoleLinks& links, const Waiting& waiting) {
    context_.job = std::move(job);
    context_.data = data;
    const auto& plan = context_.job->plan;
    if (workers_meet(plan, context_.job->goes_in_lock_step()))
      context_.groups = std::make_shared<LinkGroups>(links.node(), context_.job,
                                                     context_.metrics);
    if (keeps_slices(plan.owner_kind))
      context_.links = links.messages();
    expect_faults(context_, options_.coordinator);
    record_in(options_.flight, context_);
    if (context_.job->is_read_for(context_.role.kind))
      context_.data.train = samples_of_readers(system, context_,
                                               links.messages());
    actor_ = spawn_kept(system, waiting);
    if (context_.role.kind == RoleKind::reader)
      links.messages()->accept(local_name(context_.job_id, context_.role),
                               link_terms(*context_.job, context_.role),
                               actor_);
    if (keeps_slices(context_.role.kind))
      endpoint_ = open_shard(system, context_, options_, actor_);
  }
  void join(RoleLinks& links) {
    send_join(context_, actor_, endpoint_, links.node().endpoint());
  }

  /// Tells the whole job that it cannot be played: a restart would fail alike.
  void fail(caf::scoped_actor& self, const std::string& why) {
    self->send(context_.coordinator,
               Trouble{info_.job, context_.role,
                       to_string(context_.role) + ": " + why});
    caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
  }

  /// The run is over in order: nothing is left for a next process.
  void forget() {
    if (kept_)
      kept_->remove();
  }

  RoleContext& context() { return context_; }
  const JobInfo& info() const { return info_; }
  const caf::strong_actor_ptr& actor() const { return actor_; }

private:
  /// Where a file for its states has no room, they lie in its own memory.
  caf::strong_actor_ptr spawn_kept(caf::actor_system& system,
                                   const Waiting& waiting) {
    try {
      return spawn_role(system, context_, state_descriptor_);
    } catch (const NoRoomError& failure) {
      if (!kept_)
        throw;
      waiting.tell(undoes_steps + failure.what());
      forget();
      kept_.reset();
      state_descriptor_ = -1;
    }
    return spawn_role(system, context_, state_descriptor_);
  }

  const RoleProcessOptions& options_;
  int state_descriptor_;
  EndsWithScope line_end_;
  std::optional<KeptMemory> kept_;
  JobInfo info_;
  RoleContext context_;
  caf::strong_actor_ptr actor_;
  std::string endpoint_;
};

/// What the process is in the job, the one first that answers for it.
std::vector<RoleId> roles_of_process(const RoleProcessOptions& options) {
  if (!options.paired)
    return {options.role};
  return {options.role, {RoleKind::shard, options.role.index}};
}

} // namespace

void run_role_process(const RoleProcessOptions& asked) {
  auto options = asked;
  Waiting waiting;
  const auto name = process_name(options);
  waiting.credentials = load_credentials(options.certificates, name);
  waiting.comes = !options.by_hand;
  waiting.tell = [name](const std::string& line) {
    std::cout << to_string(name) + ": " + line + '\n' << std::flush;
  };
  ActorConfig config{waiting.credentials};
  const CertificateRenewal renewal{renewal_of(config, options)};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  std::deque<HostedRole> roles;
  const auto trials = std::make_shared<LinkTrials>();
  for (auto role : roles_of_process(options))
    roles.emplace_back(system, options, role, config.tls(), trials, waiting);
  options.listen = listen_of(options);
  for (auto& role : roles)
    role.ask(self, waiting);
  auto& first = roles.front();
  const auto& info = first.info();
  sweep_kept_memory(options.coordinator, info.job);
  check_pairing(job_from_json(info.options), options);
  std::optional<RoleLinks> links;
  try {
    auto job_options = job_from_json(info.options);
    check_code(job_options, options);
    select_isa(options.isa.empty() ? job_options.isa : options.isa);
    const auto job = std::make_shared<const Job>(std::move(job_options));
    JobData data;
    if (options.role.kind != RoleKind::shard
        && !job->is_read_for(options.role.kind))
      data = load_own_data(job->options);
    links.emplace(system, link_options(*job, options, config.tls()),
                  first.context().metrics, trials);
    for (auto& role : roles) {
      role.begin(system, job, data, *links, waiting);
      self->monitor(caf::actor_cast<caf::actor_addr>(role.actor()));
    }
    for (auto& role : roles)
      role.join(*links);
    if (options.by_hand)
      waiting.tell("joins the job of " + options.coordinator);
  } catch (const InputError& failure) {
    for (auto& role : roles)
      role.fail(self, failure.what());
    throw;
  }
  const auto reason = wait_until_over(self, first.context().coordinator,
                                      info.job, options.role, roles.size(),
                                      options.leave);
  if (reason && reason != caf::exit_reason::normal) {
    const auto line = to_string(name) + ": " + line_of(reason);
    if (is_bad_input(reason) && !options.by_hand) // its supervisor counts those
      throw BadInputError(line);
    throw std::runtime_error(line);
  }
  for (auto& role : roles)
    role.forget();
  if (options.by_hand)
    waiting.tell("is done");
}

} // namespace troupe
