//! Backups of the database in a bucket of an object store.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use shortener_e2e::{
    GatewayClient, ObjectStore, Provider, Space, Stack, await_condition, base_spec, kubectl, merge,
};

use crate::backup::run_now;

/// Returns a bucket with the name of its Secret.
fn bucket(name: &str, secret: &str) -> Value {
    json!({"endpoint": ObjectStore::ENDPOINT, "bucket": name, "secretRef": {"name": secret}})
}

fn backed_up(bucket: &Value) -> Value {
    let verify = json!({"schedule": "@yearly"});
    json!({"database": {"backup": {"schedule": "@yearly", "s3": bucket, "verify": verify}}})
}

/// Makes a Secret for a bucket.
async fn secret(stack: &Stack, name: &str, password: &str, encryption: &str) -> Result<()> {
    let user = ObjectStore::CREDENTIALS[0];
    let entries = [
        ("accessKeyId", user),
        ("secretAccessKey", password),
        ("encryptionPassword", encryption),
    ];
    let entries = entries.map(|(key, value)| format!("--from-literal={key}={value}"));
    let mut create = vec!["create", "secret", "generic", name];
    create.extend(entries.iter().map(String::as_str));
    kubectl(stack, &create).await.map(drop)
}

/// Makes a backup that fails, until the stack names the reason.
async fn fails(stack: &Stack, name: &str, reason: &str) -> Result<()> {
    let job = format!("job/{name}");
    let create = ["create", "job", name, "--from=cronjob/acme-backup"];
    kubectl(stack, &create).await?;
    await_condition("the failed backup is named", async || {
        let condition = stack.current("BackupReady", "False").await?;
        ensure!(condition.message.contains(reason), "{condition:?}");
        Ok(())
    })
    .await?;
    let delete = ["delete", &job, "--cascade=foreground"];
    kubectl(stack, &delete).await.map(drop)
}

#[tokio::test]
async fn a_backup_is_encrypted_in_a_bucket_and_the_next_stack_begins_with_it() -> Result<()> {
    Space::with("bucket", async |space| {
        let provider = Provider::IngressNginx;
        let objects = ObjectStore::start(space).await?;
        let [_, password] = ObjectStore::CREDENTIALS;
        let near = space.stack("acme");
        secret(&near, "wrong-password", "wrong", "enc").await?;
        secret(&near, "bucket", password, "enc").await?;
        secret(&near, "other-encryption", password, "other").await?;
        let backups = bucket(ObjectStore::BUCKET, "bucket");
        let wrong = bucket(ObjectStore::BUCKET, "wrong-password");
        let (stack, gateway) = space.serve(provider, backed_up(&wrong)).await?;
        let mut links = Vec::new();
        for number in 0..20 {
            let url = format!("https://example.com/saved/{number}");
            links.push((gateway.shorten(&url).await?, url));
        }
        fails(&stack, "wrong-password", "SignatureDoesNotMatch").await?;
        let missing = bucket("missing", "bucket");
        stack.edit(backed_up(&missing)).await?;
        stack.ready().await?;
        fails(&stack, "missing-bucket", "AccessDenied").await?;

        stack.edit(backed_up(&backups)).await?;
        stack.ready().await?;
        run_now(&stack, "backup").await?;
        stack
            .until_reason("BackupReady", "True", "Complete")
            .await?;
        let all = objects.objects().await?;
        for file in ["links.dump", "manifest.json", "stack.yaml", "secrets.yaml"] {
            ensure!(all.contains(file), "no {file} in {all}");
        }
        let name = backup_name(&stack).await?;
        let path = format!("{}/acme/{name}/manifest.json.bin", space.name);
        let manifest = objects.read(&path).await?;
        ensure!(manifest.contains("RCLONE"), "{manifest}");
        ensure!(!manifest.contains("schemaVersion"), "{manifest}");
        run_now(&stack, "verify").await?;
        stack
            .until_reason("BackupVerified", "True", "Verified")
            .await?;

        stack.delete().await?;
        let other = bucket(ObjectStore::BUCKET, "other-encryption");
        begin_with(space, &stack, &other).await?;
        await_condition("the wrong password is named", async || {
            let database = stack.current("DatabaseReady", "False").await?;
            ensure!(database.message.contains("bad password"), "{database:?}");
            Ok(())
        })
        .await?;
        stack.delete().await?;
        begin_with(space, &stack, &backups).await?;
        stack.ready().await?;
        let gateway = GatewayClient::open(space, &stack, provider, &space.host()).await?;
        for (code, url) in &links {
            gateway.assert_redirects(code, url).await?;
        }
        Ok(())
    })
    .await
}

/// Returns the name of the newest backup in the status.
async fn backup_name(stack: &Stack) -> Result<String> {
    let found = stack.get().await?.data["status"]["backups"][0]["name"].clone();
    Ok(serde_json::from_value(found)?)
}

/// Creates a stack whose database begins with the newest backup of a bucket.
async fn begin_with(space: &Space, stack: &Stack, bucket: &Value) -> Result<()> {
    let gone = ["delete", "pvc", "acme-postgres", "--ignore-not-found"];
    kubectl(stack, &gone).await?;
    let mut spec = base_spec(space, Provider::IngressNginx);
    let mut from = bucket.clone();
    from["prefix"] = format!("{}/acme", space.name).into();
    merge(
        &mut spec,
        json!({"database": {"restoreFrom": {"s3": from}}}),
    );
    stack.apply(&spec).await
}
