//! The custom resources `ShortenerStack`, `ShortLink` and `ShortenerDrill`: their fields, defaults and admission rules. They contain no
//! behaviour.
//!
//! Large parts that most stacks lack are boxes, because the operator keeps every stack in memory.

mod allowed_namespaces;
mod annotations;
mod autoscaling;
mod cache;
mod clicks;
mod component;
mod console;
mod database;
mod defaults;
mod destinations;
mod drill;
mod gateway;
mod links;
mod logs;
mod monitoring;
mod names;
mod observability;
mod profile;
mod purge;
mod queue;
mod rules;
mod schema;
mod short_link;
mod spec;
mod status;
mod tls;
mod vector;
mod webhooks;

pub use allowed_namespaces::AllowedNamespace;
pub use annotations::RESERVED_ANNOTATIONS;
pub use autoscaling::{AppAutoscaling, WorkersAutoscaling};
pub use cache::{CacheMode, CacheSpec, ExternalCache, ManagedCache};
pub use clicks::ClicksSpec;
pub use component::{PodSettings, ResourceSettings};
pub use console::ConsoleSpec;
pub use database::{
    BackupBucket, BackupSpec, BackupVerification, BackupVolume, CloudNativePg, ClusterPooler,
    DatabasePooler, DatabaseSpec, ExternalDatabase, ManagedDatabase, RestoreFrom, SecretKeyRef,
};
pub use destinations::DestinationsSpec;
pub use drill::{
    DrillPhase, DrillPromise, DrillRequest, DrillVerdict, DrilledStackRef, DrilledStore,
    DrillsSpec, JobReport, LONGEST_DRILL, RequestReport, ShortenerDrill, ShortenerDrillSpec,
    ShortenerDrillStatus,
};
pub use gateway::{
    AuthProxySpec, EndToEndProbe, GatewayAuth, GatewayCors, GatewayProvider, GatewayServiceSpec,
    GatewayServiceType, GatewaySpec, GatewayTls, GroupScopes, Hsts, KeyRateLimits, KeyScope,
    ParentRef, Protected,
};
pub use links::LinksSpec;
pub use logs::{ClientAddress, LogsSpec};
pub use monitoring::MonitoringSpec;
pub use observability::{
    BackendSpec, CollectorSpec, ExternalBackend, ExternalCollector, ManagedBackend,
    ManagedCollector, ObservabilitySpec, OtlpProtocol, SecretRef,
};
pub use profile::Profile;
pub use purge::PurgeSpec;
pub use queue::{DeadLettersSpec, ExternalQueue, ManagedQueue, QueueCluster, QueueSpec};
pub use short_link::{
    Adopt, LinkDeletionPolicy, SHORT_LINK_FINALIZER, ShortLink, ShortLinkSpec, ShortLinkStatus,
    StackRef,
};
pub use spec::{
    AppSpec, DeletionPolicy, RateLimits, ShortenerStack, ShortenerStackSpec, UpgradePolicy,
    WorkersSpec,
};
pub use status::{
    AppStatus, BackupResult, BackupStatus, PendingChange, PlanStatus, QueueStatus,
    ShortenerStackStatus, VolumesStatus, WorkersStatus,
};
pub use tls::{CaRef, ClientTls, DatabaseTls, DatabaseTlsMode};
pub use vector::{ApiKeyRef, Distance, ExternalVector, ManagedVector, VectorSpec};
#[cfg(test)]
pub(crate) use webhooks::ADMITTED_ADDRESSES;
pub use webhooks::{WebhookEvent, WebhookSpec};

/// Size of a store's volume if the spec contains none.
pub const DEFAULT_STORAGE: &str = "1Gi";
/// Size of the volume for backups if the spec contains none.
pub const DEFAULT_BACKUP_STORAGE: &str = "10Gi";
/// Size of the volume of the stack's own backend if the spec contains none.
pub const DEFAULT_BACKEND_STORAGE: &str = "2Gi";

#[cfg(test)]
mod tests;
