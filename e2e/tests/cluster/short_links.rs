//! ShortLinks: who owns a code, what the API and the database may change, and how deletions end.

use anyhow::{Context, Result, ensure};
use http::Method;
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use serde_json::{Value, json};
use shortener_e2e::{
    Condition, GatewayClient, Provider, Space, Stack, await_condition, condition_of, psql,
};

const KEY: &str = "e2e-key-of-a-client-with-every-scope";
const URL: &str = "https://docs.example.com/welcome";

/// The ShortLinks of a namespace.
struct ShortLinks {
    api: Api<DynamicObject>,
}

impl ShortLinks {
    fn of(space: &Space) -> Self {
        let kind = GroupVersionKind::gvk("shortener.dev", "v1alpha1", "ShortLink");
        let resource = ApiResource::from_gvk_with_plural(&kind, "shortlinks");
        Self {
            api: Api::namespaced_with(space.client.clone(), &space.name, &resource),
        }
    }

    /// Creates or updates a ShortLink of the stack `acme` to [`URL`].
    async fn apply(&self, name: &str, code: &str, spec: Value) -> Result<()> {
        let mut whole = json!({"stackRef": {"name": "acme"}, "code": code, "url": URL});
        shortener_e2e::merge(&mut whole, spec);
        let object = json!({
            "apiVersion": "shortener.dev/v1alpha1", "kind": "ShortLink",
            "metadata": {"name": name}, "spec": whole,
        });
        let parameters = PatchParams::apply("e2e").force().validation_strict();
        self.api
            .patch(name, &parameters, &Patch::Apply(object))
            .await
            .with_context(|| format!("cannot apply ShortLink {name}"))?;
        Ok(())
    }

    /// Waits until the condition Ready has this reason for the current generation.
    async fn until(&self, name: &str, status: &str, reason: &str) -> Result<Condition> {
        let what = format!("ShortLink {name} shows Ready={status}, reason {reason}");
        await_condition(&what, async || {
            let link = self.api.get(name).await?;
            let ready = condition_of(&link, "Ready")?;
            ensure!(
                ready.status == status
                    && ready.reason == reason
                    && ready.observed_generation == link.metadata.generation,
                "{ready:?}, generation {:?}",
                link.metadata.generation
            );
            Ok(ready)
        })
        .await
    }

    /// Deletes a ShortLink and waits until its object is gone.
    async fn delete(&self, name: &str) -> Result<()> {
        self.api.delete(name, &DeleteParams::default()).await?;
        await_condition(&format!("ShortLink {name} is gone"), async || {
            let left = self.api.get_opt(name).await?;
            ensure!(left.is_none(), "{:?}", left.map(|link| link.metadata));
            Ok(())
        })
        .await
    }
}

async fn serve(space: &Space) -> Result<(Stack, GatewayClient, ShortLinks)> {
    space.secret("keys", &json!({"every": KEY})).await?;
    let spec = json!({"gateway": {"auth": {"secretRef": {"name": "keys"}}}});
    let (stack, gateway) = space.serve(Provider::Standalone, spec).await?;
    Ok((stack, gateway, ShortLinks::of(space)))
}

async fn until_status(gateway: &GatewayClient, code: &str, status: u16) -> Result<()> {
    await_condition(&format!("{code} is answered with {status}"), async || {
        let answer = gateway.get(&format!("/api/links/{code}")).await?;
        ensure!(answer.status == status, "{answer:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_short_link_is_served_as_its_spec_says_until_it_is_deleted() -> Result<()> {
    Space::with("short-link", async |space| {
        let (stack, gateway, links) = serve(space).await?;
        links
            .apply("guide", "guide", json!({"title": "Docs"}))
            .await?;
        links.until("guide", "True", "Serving").await?;
        gateway.assert_redirects("guide", URL).await?;
        let shown = links.api.get("guide").await?;
        let short_url = shown.data["status"]["shortURL"].as_str();
        ensure!(
            short_url.is_some_and(|url| url.ends_with("/guide")),
            "{shown:?}"
        );

        // The API changes no link of a ShortLink.
        let request = gateway.request(Method::DELETE, "/api/admin/links/guide");
        let refused = gateway.send(request.bearer_auth(KEY)).await?;
        ensure!(refused.status == 409, "{refused:?}");
        let owner = format!("ShortLink {}/guide", space.name);
        ensure!(refused.body.contains(&owner), "{refused:?}");
        let renamed = links.apply("guide", "other", json!({})).await;
        let refusal = format!("{:#}", renamed.expect_err("the code changed"));
        ensure!(refusal.contains("code cannot change"), "{refusal}");

        // What a hand changed in the database is put back with the next change at the latest.
        psql(&stack, "delete from link_labels where code = 'guide'").await?;
        links
            .apply("guide", "guide", json!({"title": "Docs", "enabled": false}))
            .await?;
        links.until("guide", "True", "LinkDisabled").await?;
        until_status(&gateway, "guide", 410).await?;
        let title = psql(&stack, "select title from link_labels where code = 'guide'").await?;
        assert_eq!(title.trim(), "Docs");
        links
            .apply("guide", "guide", json!({"title": "Docs"}))
            .await?;
        links.until("guide", "True", "Serving").await?;
        until_status(&gateway, "guide", 302).await?;

        is_taken_down_and_made_again(&gateway, &links).await
    })
    .await
}

async fn is_taken_down_and_made_again(gateway: &GatewayClient, links: &ShortLinks) -> Result<()> {
    // Management takes it down, and only management puts it back.
    let manage = async |change: &str| -> Result<()> {
        let path = format!("/api/admin/links/guide/{change}");
        let request = gateway.request(Method::POST, &path).bearer_auth(KEY);
        let changed = gateway
            .send(request.json(&json!({"reason": "spam"})))
            .await?;
        ensure!(changed.status == 200, "{changed:?}");
        Ok(())
    };
    manage("disable").await?;
    links
        .apply("guide", "guide", json!({"title": "Spam"}))
        .await?;
    let down = links.until("guide", "False", "TakenDown").await?;
    ensure!(down.message.contains("management"), "{down:?}");
    until_status(gateway, "guide", 410).await?;
    manage("enable").await?;
    links
        .apply("guide", "guide", json!({"title": "Docs"}))
        .await?;
    links.until("guide", "True", "Serving").await?;
    until_status(gateway, "guide", 302).await?;

    // One that is made again gets back what the deletion has disabled.
    links.delete("guide").await?;
    until_status(gateway, "guide", 410).await?;
    links.apply("guide", "guide", json!({})).await?;
    links.until("guide", "True", "Serving").await?;
    until_status(gateway, "guide", 302).await?;
    links.delete("guide").await
}

#[tokio::test]
async fn a_code_belongs_to_the_first_who_asks_and_a_loser_deletes_nothing() -> Result<()> {
    Space::with("short-link-owners", async |space| {
        let (stack, gateway, links) = serve(space).await?;
        links.apply("first", "team", json!({})).await?;
        links.until("first", "True", "Serving").await?;
        links
            .apply("second", "team", json!({"deletionPolicy": "Delete"}))
            .await?;
        let taken = links.until("second", "False", "CodeTaken").await?;
        ensure!(taken.message.contains("/first"), "{taken:?}");
        let loser = links.api.get("second").await?;
        ensure!(loser.metadata.finalizers.is_none(), "{:?}", loser.metadata);
        links.delete("second").await?;
        gateway.assert_redirects("team", URL).await?;

        // A link that was made by the API is adopted only if that is asked for.
        let request = gateway.request(Method::POST, "/api/shorten");
        let body = json!({"url": URL, "code": "free"});
        let created = gateway.send(request.bearer_auth(KEY).json(&body)).await?;
        ensure!(created.status == 201, "{created:?}");
        links.apply("free", "free", json!({})).await?;
        links.until("free", "False", "CodeTaken").await?;
        links
            .apply(
                "free",
                "free",
                json!({"adopt": "IfSame", "deletionPolicy": "Retain"}),
            )
            .await?;
        links.until("free", "True", "Serving").await?;
        links.delete("free").await?;
        gateway.assert_redirects("free", URL).await?;

        // A stack that is stopped cannot answer; links go on when it is back, and end with it.
        stack.edit(json!({"stopped": true})).await?;
        stack.until("Ready", "False").await?;
        links.apply("later", "later", json!({})).await?;
        links.until("later", "Unknown", "StackNotReachable").await?;
        stack.edit(json!({"stopped": false})).await?;
        stack.ready().await?;
        links.until("later", "True", "Serving").await?;
        stack.delete().await?;
        links.until("first", "False", "StackNotFound").await?;
        links.delete("first").await?;
        links.delete("later").await
    })
    .await
}
