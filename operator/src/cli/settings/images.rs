//! The default images, in one table.

use clap::Args;
use shortener_operator_core::model::defaults::Images;

/// Expands to the name of an image that is released together with this operator. The repository comes from
/// `.cargo/config.toml`.
macro_rules! released_image {
    ($name:literal) => {
        concat!(
            env!("IMAGE_REPOSITORY"),
            "/",
            $name,
            ":",
            env!("CARGO_PKG_VERSION")
        )
    };
}

/// Makes the arguments from a table. The columns of an image are its field, the id of its argument, its flag, its
/// environment variable and its default.
macro_rules! default_images {
    ($($(#[$doc:meta])* $field:ident: $id:literal, $flag:literal, $variable:literal, $default:expr;)*) => {
        /// Default images, used for components whose image a stack does not set.
        #[derive(Clone, Debug, PartialEq, Eq, Args)]
        pub struct DefaultImages {
            $(
                $(#[$doc])*
                #[arg(id = $id, long = $flag, env = $variable, default_value = $default)]
                pub $field: String,
            )*
        }

        impl DefaultImages {
            /// Returns each image with the id of its argument.
            pub(super) fn arguments(&mut self) -> impl Iterator<Item = (&'static str, &mut String)> {
                [$(($id, &mut self.$field)),*].into_iter()
            }
        }

        impl From<DefaultImages> for Images {
            fn from(images: DefaultImages) -> Self {
                let DefaultImages { $($field),* } = images;
                Self { $($field),* }
            }
        }
    };
}

default_images! {
    /// Image of the app
    app: "app_image", "app-image", "APP_IMAGE", released_image!("app");
    /// Image of the gateway
    gateway: "gateway_image", "gateway-image", "GATEWAY_IMAGE", "nginx:1.30.6";
    /// Image of a managed database whose volume is new or was created by PostgreSQL 18
    postgres: "postgres_image", "postgres-image", "POSTGRES_IMAGE", "postgres:18.6";
    /// Image of a managed database whose volume was created by PostgreSQL 17
    postgres_17: "postgres_17_image", "postgres-17-image", "POSTGRES_17_IMAGE", "postgres:17.12";
    /// Image of the managed cache
    cache: "cache_image", "cache-image", "CACHE_IMAGE", "valkey/valkey:9.1.2";
    /// Image of the managed broker; it must contain the management plugin
    rabbitmq: "rabbitmq_image", "rabbitmq-image", "RABBITMQ_IMAGE", "rabbitmq:4.3.6-management";
    /// Image of the workers
    worker: "worker_image", "worker-image", "WORKER_IMAGE", released_image!("worker");
    /// Image of the managed collector of traces and logs
    otel: "otel_image", "otel-image", "OTEL_IMAGE", "otel/opentelemetry-collector-contrib:0.162.0";
    /// Image of the managed backend of traces, logs and metrics
    telemetry: "telemetry_image", "telemetry-image", "TELEMETRY_IMAGE", "grafana/otel-lgtm:0.31.0";
    /// Image of the managed vector store
    qdrant: "qdrant_image", "qdrant-image", "QDRANT_IMAGE", "qdrant/qdrant:v1.19.0";
    /// Image of rclone, which copies backups to and from an object store
    rclone: "rclone_image", "rclone-image", "RCLONE_IMAGE", "rclone/rclone:1.76.0";
}
