//! Stacks with profiles, each with a managed and an external variant.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{external, managed};
use crate::{
    api::{ApiKeyRef, CacheMode, Distance, OtlpProtocol, Profile},
    reconcile::{
        build,
        stack::{
            Backend, Cache, Collector, Draining, ExternalBackend, Headers, ManagedCollector,
            Monitoring, Pod, Queue, Store, StoreVolume, ValidatedStack, Vector, Workers,
        },
    },
};

/// Returns every set of profiles, each in the order of the resource's documentation.
pub fn combinations() -> impl Iterator<Item = Vec<Profile>> {
    let chosen = |number: usize| -> Vec<Profile> {
        let all = Profile::ALL.into_iter().enumerate();
        let chosen = all.filter(|(place, _)| number >> place & 1 == 1);
        chosen.map(|(_, profile)| profile).collect()
    };
    (0..1 << Profile::ALL.len()).map(chosen)
}

/// Returns a queue with one worker.
fn queue(store: Store) -> Queue {
    Queue {
        store,
        delivery_limit: 5,
        broker_memory: 512 << 20,
        workers: Workers {
            replicas: 1,
            pod: Pod {
                image: "registry.test/worker:1".to_owned(),
                resources: build::worker::default_resources(),
                ..Pod::default()
            },
        },
        draining: None,
    }
}

impl ValidatedStack {
    /// Adds a managed cache.
    pub fn caching(mut self) -> Self {
        let max_memory = 128 << 20;
        let mut store = managed(
            "registry.test/valkey:8",
            build::cache::default_resources(max_memory),
            &[("password", "s3cret")],
        );
        if let Store::Managed(store) = &mut store {
            store.volume = None;
        }
        self.cache = Some(Cache {
            store,
            ttl_seconds: 3600,
            near_memory: 0,
            max_memory,
            mode: CacheMode::Single,
            sentinel_master: None,
        });
        self
    }

    /// Adds an external cache behind sentinels.
    pub fn external_cache(mut self) -> Self {
        self.cache = Some(Cache {
            store: external("links-cache"),
            ttl_seconds: 60,
            near_memory: 16 << 20,
            max_memory: 128 << 20,
            mode: CacheMode::Sentinel,
            sentinel_master: Some("links".to_owned()),
        });
        self
    }

    /// Adds a queue with a managed broker.
    pub fn queue(mut self) -> Self {
        let store = managed(
            "registry.test/rabbitmq:4",
            build::rabbitmq::default_resources(),
            &[("username", "shortener"), ("password", "s3cret")],
        );
        self.queue = Some(queue(store));
        self
    }

    /// Adds a queue on an external broker.
    pub fn external_queue(mut self) -> Self {
        self.queue = Some(queue(external("links-queue")));
        self
    }

    /// Drains the queue (after [`Self::queue`]), which is deleted once it is empty.
    pub fn draining(mut self) -> Self {
        if let Some(queue) = &mut self.queue {
            queue.draining = Some(Draining {
                closed: true,
                left: Some(3),
            });
        }
        self
    }

    /// Adds a managed vector store.
    pub fn vector(mut self) -> Self {
        let store = managed(
            "registry.test/qdrant:1",
            build::qdrant::default_resources(),
            &[("api-key", "s3cret")],
        );
        self.vector = Some(Vector {
            store,
            api_key: None,
            collection: "docs".to_owned(),
            size: 4,
            distance: Distance::Cosine,
        });
        self
    }

    /// Adds an external vector store that requires an API key.
    pub fn external_vector(mut self) -> Self {
        self.vector = Some(Vector {
            store: external("links-vectors"),
            api_key: Some(ApiKeyRef {
                name: "links-vectors-key".to_owned(),
                key: "api-key".to_owned(),
            }),
            collection: "pages".to_owned(),
            size: 768,
            distance: Distance::Euclid,
        });
        self
    }

    /// Adds a collector without a backend.
    pub fn observability(self) -> Self {
        self.collecting(Backend::Nowhere)
    }

    /// Adds a collector with a managed backend.
    pub fn telemetry(self) -> Self {
        let mut store = managed(
            "registry.test/lgtm:1",
            build::telemetry::default_resources(),
            &[("username", "shortener"), ("password", "s3cret")],
        );
        if let Store::Managed(store) = &mut store {
            store.volume = Some(StoreVolume {
                size: Quantity("2Gi".to_owned()),
                class: None,
                postgres_major: None,
            });
        }
        self.collecting(Backend::Managed(store))
    }

    /// Adds a collector with an external backend that requires headers.
    pub fn external_backend(self, protocol: OtlpProtocol) -> Self {
        self.collecting(Backend::External(ExternalBackend {
            protocol,
            traces: "https://traces.test:4317".to_owned(),
            logs: "http://logs.test:4317".to_owned(),
            headers: Some(Headers {
                secret: "links-headers".to_owned(),
                names: vec!["authorization".to_owned(), "x-scope-orgid".to_owned()],
                checksum: "checksum-of-headers".to_owned(),
            }),
        }))
    }

    /// Adds an external collector.
    pub fn external_collector(mut self) -> Self {
        self.monitoring = Some(Monitoring::default());
        self.collector = Some(Collector::External {
            endpoint: "https://collector.test:4317".to_owned(),
        });
        self
    }

    fn collecting(mut self, backend: Backend) -> Self {
        self.monitoring = Some(Monitoring::default());
        self.collector = Some(Collector::Managed(Box::new(ManagedCollector {
            replicas: 1,
            pod: Pod {
                image: "registry.test/otel:1".to_owned(),
                resources: build::otel::default_resources(),
                ..Pod::default()
            },
            backend,
        })));
        self
    }
}
