#include "apps/launch/kubernetes.hpp"

#include "actors/certificates/metrics_token.hpp"
#include "actors/job/memory_need.hpp"
#include "apps/launch/yaml.hpp"

#include <algorithm>
#include <map>

namespace troupe {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int control_port = 7000;
constexpr int metrics_port = 9400;
constexpr int user = 10'001; ///< any but root
constexpr uint32_t restarts_of_each = 5;
constexpr uint64_t bytes_per_mib = uint64_t{1} << 20;
/// Samples, messages and the program itself come on top of memory_needs().
constexpr uint64_t base_mib = 512;
constexpr const char* kept = "/kept"; ///< volume for what the run writes
constexpr const char* private_folder = "/run/troupe";
constexpr const char* certificates = "/run/troupe/certificates";
constexpr const char* secret = "/secret";
constexpr const char* number_word = "$(TROUPE_NUMBER)";

/// What a container reads as it stands, although it has a dollar sign.
std::string literal(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '$' ? std::string{"$$"} : std::string{c};
  return out;
}

OrderedJson labels(const KubernetesJob& job, const std::string& kind) {
  return {{"app.kubernetes.io/name", "troupe"},
          {"app.kubernetes.io/instance", job.flags.name},
          {"app.kubernetes.io/component", kind}};
}

OrderedJson object(const KubernetesJob& job, const char* version,
                   const char* kind, const std::string& name,
                   const std::string& component) {
  OrderedJson metadata{{"name", name}};
  if (!job.flags.space.empty())
    metadata["namespace"] = job.flags.space;
  metadata["labels"] = labels(job, component);
  return {{"apiVersion", version}, {"kind", kind}, {"metadata", metadata}};
}

std::string name_of(const KubernetesJob& job, const std::string& part) {
  return job.flags.name + '-' + part;
}

/// By which pods reach the coordinator's.
std::string coordinator_host(const KubernetesJob& job) {
  return name_of(job, "coordinator-0") + '.' + job.flags.name;
}

OrderedJson environment(const char* name, const char* field) {
  return {{"name", name},
          {"valueFrom", {{"fieldRef", {{"fieldPath", field}}}}}};
}

/// What a pod's init container and its role read their place from.
OrderedJson environments(bool coordinates) {
  OrderedJson out = OrderedJson::array({{{"name", "HOME"}, {"value", "/tmp"}}});
  out.push_back(environment("TROUPE_NUMBER",
                            "metadata.annotations['batch.kubernetes.io/"
                            "job-completion-index']"));
  // Another one each time that the job is applied anew.
  if (coordinates)
    out.push_back(environment(
      "TROUPE_RUN", "metadata.labels['batch.kubernetes.io/controller-uid']"));
  return out;
}

OrderedJson own_security() {
  return {{"allowPrivilegeEscalation", false},
          {"readOnlyRootFilesystem", true},
          {"capabilities", {{"drop", OrderedJson::array({"ALL"})}}}};
}

/// Copies a pod's own certificate, and no other, to where its role alone reads
/// it and keeps what it renews; then waits until the coordinator has a name.
std::string preparation(const KubernetesJob& job, const std::string& kind) {
  const std::string from{secret};
  const std::string fresh = std::string{private_folder} + "/new";
  const bool coordinates = kind == "coordinator";
  const auto files =
    coordinates
      ? from + '/' + authority_file + ' ' + from + '/' + authority_key_file
          + ' ' + from + '/' + metrics_token_file
      : from + '/' + authority_file + ' ' + from + '/' + kind
          + "-$TROUPE_NUMBER.pem " + from + '/' + kind + "-$TROUPE_NUMBER.key";
  auto out = std::string{"set -eu\numask 077\nif [ ! -d "} + certificates
             + " ]; then\n  rm -rf " + fresh + "\n  mkdir " + fresh + "\n  cp "
             + files + ' ' + fresh + "/\n  mv " + fresh + ' ' + certificates
             + "\nfi\n";
  if (!coordinates)
    out +=
      "for try in $(seq 600); do\n  ! getent hosts " + coordinator_host(job)
      + " >/dev/null || exit 0\n  sleep 1\ndone\necho '" + coordinator_host(job)
      + " has no address: is the coordinator there?' >&2\nexit 1\n";
  return out;
}

/// A role gives signs of life four times a second, so its threads have run
/// since the last time that this was asked, unless it was stopped.
std::string life_of_first_process() {
  return "now=$(cat /proc/1/task/*/status | grep ctxt_switches)\n"
         "[ \"$now\" != \"$(cat /tmp/alive 2>/dev/null)\" ] || exit 1\n"
         "echo \"$now\" > /tmp/alive\n";
}

OrderedJson shell(const std::string& text) {
  return {"sh", "-c", text};
}

void add_probes(OrderedJson& container, bool coordinates) {
  const OrderedJson door{{"port", control_port}};
  if (!coordinates) {
    container["livenessProbe"] = {
      {"exec", {{"command", shell(life_of_first_process())}}},
      {"periodSeconds", 30},
      {"timeoutSeconds", 10},
      {"failureThreshold", 3}};
    return;
  }
  // It opens its port once it has read the data.
  container["startupProbe"] = {
    {"tcpSocket", door}, {"periodSeconds", 5}, {"failureThreshold", 720}};
  container["readinessProbe"] = {{"tcpSocket", door}, {"periodSeconds", 10}};
  container["livenessProbe"] = {
    {"exec",
     {{"command",
       OrderedJson::array({"troupe", "status",
                           "127.0.0.1:" + std::to_string(metrics_port),
                           "--certificates", certificates})}}},
    {"periodSeconds", 30},
    {"timeoutSeconds", 20},
    {"failureThreshold", 4}};
}

OrderedJson arguments_of(const KubernetesJob& job, const std::string& kind) {
  const auto port = ":" + std::to_string(control_port);
  if (kind != "coordinator")
    return {"role",           kind + ':' + number_word,
            "--coordinator",  coordinator_host(job) + port,
            "--certificates", certificates};
  OrderedJson out{"role",
                  "coordinator",
                  "--listen",
                  "0.0.0.0" + port,
                  "--certificates",
                  certificates,
                  "--metrics-address",
                  "0.0.0.0:" + std::to_string(metrics_port),
                  "--journal",
                  std::string{kept} + "/journal-$(TROUPE_RUN).db"};
  for (const auto& word : job.job)
    out.push_back(literal(word));
  return out;
}

OrderedJson resources_of(const KubernetesRole& role) {
  OrderedJson out{{"requests",
                   {{"cpu", std::to_string(role.cores)},
                    {"memory", std::to_string(role.memory_mib) + "Mi"}}}};
  if (role.gpus > 0)
    out["limits"] = {{"nvidia.com/gpu", std::to_string(role.gpus)}};
  return out;
}

OrderedJson mount(const char* name, const std::string& path) {
  return {{"name", name}, {"mountPath", path}};
}

/// The volumes of a pod, and where its role has them.
void add_volumes(const KubernetesJob& job, const KubernetesRole& role,
                 OrderedJson& pod, OrderedJson& container) {
  const OrderedJson in_memory{{"medium", "Memory"}};
  pod["volumes"] = OrderedJson::array(
    {{{"name", "private"}, {"emptyDir", in_memory}},
     {{"name", "shared-memory"}, {"emptyDir", in_memory}},
     {{"name", "temporary"}, {"emptyDir", OrderedJson::object()}},
     {{"name", "secret"},
      {"secret",
       {{"secretName", name_of(job, role.kind)}, {"defaultMode", 0440}}}}});
  container["volumeMounts"] = OrderedJson::array(
    {mount("private", private_folder), mount("shared-memory", "/dev/shm"),
     mount("temporary", "/tmp")});
  if (role.kind == "coordinator") {
    pod["volumes"].push_back(
      {{"name", "kept"},
       {"persistentVolumeClaim", {{"claimName", name_of(job, "kept")}}}});
    container["volumeMounts"].push_back(mount("kept", kept));
  }
  if (const auto colon = job.flags.claim.find(':');
      colon != std::string::npos) {
    pod["volumes"].push_back({{"name", "data"},
                              {"persistentVolumeClaim",
                               {{"claimName", job.flags.claim.substr(0, colon)},
                                {"readOnly", true}}}});
    container["volumeMounts"].push_back(
      mount("data", job.flags.claim.substr(colon + 1)));
    container["volumeMounts"].back()["readOnly"] = true;
  }
}

OrderedJson pod_of(const KubernetesJob& job, const KubernetesRole& role) {
  const bool coordinates = role.kind == "coordinator";
  OrderedJson container{{"name", "role"},
                        {"image", job.flags.image},
                        {"command", OrderedJson::array({"troupe"})},
                        {"args", arguments_of(job, role.kind)},
                        {"workingDir", coordinates ? kept : "/tmp"},
                        {"env", environments(coordinates)},
                        {"resources", resources_of(role)},
                        {"securityContext", own_security()}};
  if (coordinates)
    container["ports"] = OrderedJson::array(
      {{{"name", "control"}, {"containerPort", control_port}},
       {{"name", "metrics"}, {"containerPort", metrics_port}}});
  add_probes(container, coordinates);
  OrderedJson pod{
    {"subdomain", job.flags.name},
    {"restartPolicy", "OnFailure"},
    // At SIGTERM a run ends in good order and saves.
    {"terminationGracePeriodSeconds", 90},
    {"automountServiceAccountToken", false},
    {"enableServiceLinks", false},
    {"securityContext",
     {{"runAsNonRoot", true},
      {"runAsUser", user},
      {"runAsGroup", user},
      {"fsGroup", user},
      {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
    {"topologySpreadConstraints",
     OrderedJson::array(
       {{{"maxSkew", 1},
         {"topologyKey", "kubernetes.io/hostname"},
         {"whenUnsatisfiable", "ScheduleAnyway"},
         {"labelSelector", {{"matchLabels", labels(job, role.kind)}}}}})}};
  add_volumes(job, role, pod, container);
  pod["initContainers"] = OrderedJson::array(
    {{{"name", "certificates"},
      {"image", job.flags.image},
      {"command", shell(preparation(job, role.kind))},
      {"env", environments(false)},
      {"resources", {{"requests", {{"cpu", "10m"}, {"memory", "16Mi"}}}}},
      {"volumeMounts", OrderedJson::array({mount("private", private_folder),
                                           mount("secret", secret)})},
      {"securityContext", own_security()}}});
  pod["containers"] = OrderedJson::array({std::move(container)});
  return pod;
}

OrderedJson job_of(const KubernetesJob& job, const KubernetesRole& role) {
  auto out = object(job, "batch/v1", "Job", name_of(job, role.kind), role.kind);
  out["spec"] = {{"completionMode", "Indexed"},
                 {"completions", role.count},
                 {"parallelism", role.count},
                 {"backoffLimit", role.count * restarts_of_each},
                 {"template",
                  {{"metadata", {{"labels", labels(job, role.kind)}}},
                   {"spec", pod_of(job, role)}}}};
  return out;
}

OrderedJson secret_of(const KubernetesJob& job, const std::string& part,
                      OrderedJson files) {
  auto out = object(job, "v1", "Secret", name_of(job, part), part);
  out["type"] = "Opaque";
  out["stringData"] = std::move(files);
  return out;
}

void add_secrets(const KubernetesJob& job, const KubernetesKeys& keys,
                 std::vector<OrderedJson>& out) {
  const auto token = keys.metrics_token + '\n';
  out.push_back(secret_of(job, "coordinator",
                          {{authority_file, keys.authority.authority},
                           {authority_key_file, keys.authority.authority_key},
                           {metrics_token_file, token}}));
  for (const auto& role : job.roles) {
    OrderedJson files{{authority_file, keys.authority.authority}};
    for (const auto& member : keys.members)
      if (const auto stem = file_stem(member.name);
          stem.starts_with(role.kind + '-')) {
        files[stem + ".pem"] = member.certificate;
        files[stem + ".key"] = member.key;
      }
    out.push_back(secret_of(job, role.kind, std::move(files)));
  }
  // A reader of metrics gets these, and is no member. No end of a line: the
  // operator sends what it finds.
  out.push_back(secret_of(job, "metrics",
                          {{authority_file, keys.authority.authority},
                           {metrics_token_file, keys.metrics_token}}));
}

OrderedJson claim_of(const KubernetesJob& job) {
  auto out = object(job, "v1", "PersistentVolumeClaim", name_of(job, "kept"),
                    "coordinator");
  out["spec"] = {{"accessModes", OrderedJson::array({"ReadWriteOnce"})},
                 {"resources",
                  {{"requests", {{"storage", job.flags.storage}}}}}};
  return out;
}

OrderedJson service_of(const KubernetesJob& job) {
  auto out = object(job, "v1", "Service", job.flags.name, "coordinator");
  auto members = labels(job, "");
  members.erase("app.kubernetes.io/component");
  // Pods find each other before they are ready: a run begins when all are
  // there.
  out["spec"] = {{"clusterIP", "None"},
                 {"publishNotReadyAddresses", true},
                 {"selector", members},
                 {"ports", OrderedJson::array(
                             {{{"name", "control"}, {"port", control_port}}})}};
  return out;
}

OrderedJson monitor_of(const KubernetesJob& job) {
  auto out = object(job, "monitoring.coreos.com/v1", "PodMonitor",
                    job.flags.name, "metrics");
  const auto shown = name_of(job, "metrics");
  out["spec"] = {
    {"selector", {{"matchLabels", labels(job, "coordinator")}}},
    {"podMetricsEndpoints",
     OrderedJson::array(
       {{{"port", "metrics"},
         {"scheme", "https"},
         {"interval", "5s"},
         {"authorization",
          {{"credentials", {{"name", shown}, {"key", metrics_token_file}}}}},
         {"tlsConfig",
          {{"ca", {{"secret", {{"name", shown}, {"key", authority_file}}}}},
           {"serverName", "coordinator.troupe.internal"}}}}})}};
  return out;
}

} // namespace

std::vector<KubernetesRole> kubernetes_roles(const Settings& settings) {
  const Job job{settings.job, settings.job.global_batch};
  std::map<RoleId, uint64_t> bytes;
  for (const auto& need : memory_needs(job))
    bytes[need.role] += need.bytes();
  std::vector<KubernetesRole> out;
  for (auto kind : {RoleKind::worker, RoleKind::shard, RoleKind::stage,
                    RoleKind::tensor, RoleKind::reader}) {
    const auto roles = job.plan.of_kind(kind);
    if (roles.empty() || (kind == RoleKind::shard && job.plan.paired))
      continue;
    const bool paired = kind == RoleKind::worker && job.plan.paired;
    const auto first = to_string(roles.front().role);
    KubernetesRole role;
    role.kind = paired ? "sharded" : first.substr(0, first.find(':'));
    role.count = 0;
    uint64_t most = 0;
    for (const auto& one : roles) {
      role.count = std::max(role.count, one.role.index + 1);
      most = std::max(
        most, bytes[one.role]
                + (paired ? bytes[{RoleKind::shard, one.role.index}] : 0));
    }
    role.memory_mib = base_mib + most / bytes_per_mib;
    if (kind != RoleKind::shard) {
      role.cores = settings.job.threads_per_device;
      role.gpus = kind != RoleKind::reader
                      && settings.job.devices.front().starts_with("cuda:")
                    ? 1
                    : 0;
    }
    out.push_back(role);
  }
  return out;
}

std::string kubernetes_manifest(const KubernetesJob& job,
                                const KubernetesKeys& keys) {
  std::vector<OrderedJson> out;
  add_secrets(job, keys, out);
  out.push_back(claim_of(job));
  out.push_back(service_of(job));
  out.push_back(job_of(job, job.coordinator));
  for (const auto& role : job.roles)
    out.push_back(job_of(job, role));
  // Last: without Prometheus' operator a cluster knows no such kind.
  out.push_back(monitor_of(job));
  return to_yaml_documents(out);
}

} // namespace troupe
