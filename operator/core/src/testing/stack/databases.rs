//! Stacks with external databases, and with every external store over TLS.

use serde_json::{Value, json};

use super::resolved;
use crate::model::stack::ValidatedStack;

impl ValidatedStack {
    /// Replaces the database with an external one.
    pub fn external_database(self) -> Self {
        let reference = json!({"name": "links-database", "key": "uri"});
        self.with_database(json!({"secretRef": reference}))
    }

    /// Replaces the database with an external one behind a pooler.
    pub fn external_database_behind_a_pooler(self) -> Self {
        let reference = json!({"name": "links-pooler", "key": "uri"});
        self.with_database(json!({"secretRef": reference, "pooler": "Transaction"}))
    }

    /// Replaces the database with an external one, with certificates for TLS.
    pub fn external_database_over_tls(self) -> Self {
        let reference = json!({"name": "links-database", "key": "uri"});
        let tls = json!({
            "caSecretRef": {"name": "links-database-ca"},
            "clientCertificateSecretRef": {"name": "links-database-client"},
        });
        self.with_database(json!({"secretRef": reference, "tls": tls}))
    }

    /// Replaces the database with one that CloudNativePG runs, of these settings.
    pub fn cloud_native_pg(mut self, settings: Value) -> Self {
        let stack = resolved(json!({"database": {"cloudNativePG": settings}}));
        self.database = stack.database;
        self.cluster = stack.cluster;
        self.pooler = stack.pooler;
        self
    }

    /// Turns the queue on, in a RabbitmqCluster of these settings.
    pub fn rabbitmq_cluster(mut self, settings: Value) -> Self {
        let queue = json!({"rabbitmqCluster": settings});
        let stack = resolved(json!({"profiles": ["queue"], "queue": queue}));
        self.queue = stack.queue;
        self.broker_cluster = stack.broker_cluster;
        self
    }

    /// Turns backups and their verification on. The volume for them is of the default size.
    pub fn backed_up(mut self) -> Self {
        let verify = json!({"schedule": "17 5 * * 0"});
        let backup = json!({"schedule": "17 4 * * *", "volume": {}, "verify": verify});
        let spec = json!({"database": {"backup": backup}});
        self.backup = resolved(spec).backup;
        self
    }

    /// Turns backups to a bucket and their verification on.
    pub fn backed_up_to_a_bucket(mut self) -> Self {
        let s3 = json!({
            "endpoint": "https://s3.test:9000",
            "bucket": "backups",
            "secretRef": {"name": "links-s3"},
        });
        let verify = json!({"schedule": "17 5 * * 0"});
        let backup = json!({"schedule": "17 4 * * *", "s3": s3, "verify": verify});
        self.backup = resolved(json!({"database": {"backup": backup}})).backup;
        self
    }

    /// Replaces every store of the stack's own programs with an external one that has a private authority and demands a
    /// certificate of its clients.
    pub fn every_external_store_over_tls(mut self) -> Self {
        let external = json!({"external": {
            "secretRef": {"name": "links-store"},
            "tls": {
                "caSecretRef": {"name": "links-ca", "key": "bundle.pem"},
                "clientCertificateSecretRef": {"name": "links-client"},
            },
        }});
        let stack = resolved(json!({
            "profiles": ["caching", "queue", "vector"],
            "database": external,
            "cache": external,
            "queue": external,
            "vector": external,
        }));
        self.database = stack.database;
        self.cache = stack.cache;
        self.queue = stack.queue;
        self.vector = stack.vector;
        self
    }

    fn with_database(mut self, external: Value) -> Self {
        self.database = resolved(json!({"database": {"external": external}})).database;
        self
    }
}
