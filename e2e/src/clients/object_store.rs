//! SeaweedFS, an object store with the API of S3.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::harness::{
    Space, Stack, await_condition, kubectl_with_input, restricted_container, server::Server,
};

const NAME: &str = "objects";
const PORT: u16 = 8333;

/// The object store of a namespace with one empty bucket. It works as long as its pod.
pub struct ObjectStore {
    stack: Stack,
}

impl ObjectStore {
    /// Its address for pods of the same namespace.
    pub const ENDPOINT: &str = "http://objects:8333";
    /// The name of its bucket.
    pub const BUCKET: &str = "backups";
    /// The credentials of its only user: name and password.
    pub const CREDENTIALS: [&str; 2] = ["e2e", "e2e-s3cret"];

    /// Starts it in a namespace.
    pub async fn start(space: &Space) -> Result<Self> {
        let [access, secret] = Self::CREDENTIALS;
        let user = json!({
            "name": "e2e",
            "credentials": [{"accessKey": access, "secretKey": secret}],
            "actions": ["Read", "Write", "List", "Tagging"],
        });
        let files = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME},
            "data": {"s3.json": json!({"identities": [user]}).to_string()},
        });
        Api::<ConfigMap>::namespaced(space.client.clone(), &space.name)
            .patch(
                NAME,
                &PatchParams::apply("e2e").force(),
                &Patch::Apply(files),
            )
            .await?;
        let container = json!({
            "args": [
                "server", "-dir=/data", "-ip.bind=0.0.0.0", "-master.volumeSizeLimitMB=64",
                "-s3", format!("-s3.port={PORT}"), "-s3.config=/etc/seaweedfs/s3.json",
            ],
            "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
            "volumeMounts": [
                {"name": "files", "mountPath": "/etc/seaweedfs", "readOnly": true},
                {"name": "data", "mountPath": "/data"},
                {"name": "temporary", "mountPath": "/tmp"},
            ],
        });
        let server = Server {
            name: NAME,
            ports: &[PORT],
            container: restricted_container(&space.settings.object_store_image, container),
            volumes: json!([
                {"name": "files", "configMap": {"name": NAME}},
                {"name": "data", "emptyDir": {}},
                {"name": "temporary", "emptyDir": {}},
            ]),
        };
        server.start(space).await?;
        let store = Self {
            stack: space.stack("acme"),
        };
        await_condition("the object store has its bucket", async || {
            store
                .shell(&format!("s3.bucket.create -name {}", Self::BUCKET))
                .await?;
            let buckets = store.shell("s3.bucket.list").await?;
            ensure!(buckets.contains(Self::BUCKET), "{buckets}");
            Ok(())
        })
        .await?;
        Ok(store)
    }

    /// Returns the paths of all objects.
    pub async fn objects(&self) -> Result<String> {
        self.shell(&format!("fs.tree /buckets/{}", Self::BUCKET))
            .await
    }

    /// Returns an object, with what is no text replaced.
    pub async fn read(&self, path: &str) -> Result<String> {
        self.shell(&format!("fs.cat /buckets/{}/{path}", Self::BUCKET))
            .await
    }

    /// Runs a command of its shell.
    async fn shell(&self, command: &str) -> Result<String> {
        let arguments = [
            "exec",
            "--stdin",
            "deployment/objects",
            "--",
            "weed",
            "shell",
        ];
        kubectl_with_input(&self.stack, &arguments, &format!("{command}\n")).await
    }
}
