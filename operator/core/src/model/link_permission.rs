//! The namespaces whose ShortLinks a stack takes, and the codes that it gives them.

use crate::api::LinksSpec;

/// The reason why a stack does not take a ShortLink. The text says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The stack names the namespace nowhere.
    #[error(
        "the stack takes no ShortLinks from namespace {namespace}: its owner adds the namespace to links.allowedNamespaces, or \
         create the ShortLink in the stack's namespace"
    )]
    Namespace { namespace: String },
    /// The code begins with none of the prefixes of the namespace.
    #[error(
        "links.allowedNamespaces of the stack gives namespace {namespace} the codes that begin with {}: create a new \
         ShortLink with such a code",
        .prefixes.join(" or ")
    )]
    Code {
        namespace: String,
        prefixes: Vec<String>,
    },
}

impl Refused {
    pub const NAMESPACE_NOT_ALLOWED: &str = "NamespaceNotAllowed";
    pub const CODE_NOT_ALLOWED: &str = "CodeNotAllowed";

    /// Returns the reason for a condition.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Namespace { .. } => Self::NAMESPACE_NOT_ALLOWED,
            Self::Code { .. } => Self::CODE_NOT_ALLOWED,
        }
    }
}

/// Checks that a stack with these settings takes a ShortLink with this code from a namespace. Its own namespace may have
/// every code.
///
/// # Errors
/// [`Refused`] with the remedy.
pub fn allowed(
    links: &LinksSpec,
    stack_namespace: &str,
    namespace: &str,
    code: &str,
) -> Result<(), Refused> {
    if namespace == stack_namespace {
        return Ok(());
    }
    let mut known = links.allowed_namespaces.iter();
    let Some(known) = known.find(|known| known.name == namespace) else {
        return Err(Refused::Namespace {
            namespace: namespace.to_owned(),
        });
    };
    let prefixes = &known.code_prefixes;
    if prefixes.iter().any(|prefix| code.starts_with(prefix)) {
        return Ok(());
    }
    Err(Refused::Code {
        namespace: namespace.to_owned(),
        prefixes: prefixes.iter().cloned().collect(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stack_takes_every_code_of_its_namespace_and_the_prefixes_of_others() {
        let links: LinksSpec = serde_json::from_value(json!({"allowedNamespaces": [
            {"name": "shop", "codePrefixes": ["shop-", "s_"]},
            {"name": "press", "codePrefixes": ["press-"]},
        ]}))
        .unwrap();
        let (namespace, code) = (Some("NamespaceNotAllowed"), Some("CodeNotAllowed"));
        for (from, asked, refused) in [
            ("links", "x", None),
            ("links", "shop-x", None),
            ("shop", "shop-x", None),
            ("shop", "shop-", None),
            ("shop", "s_x", None),
            ("shop", "Shop-x", code),
            ("shop", "shop", code),
            ("shop", "x-shop-", code),
            ("shop", "press-x", code),
            ("press", "press-x", None),
            ("press", "shop-x", code),
            ("shops", "shop-x", namespace),
            ("", "shop-x", namespace),
        ] {
            let found = allowed(&links, "links", from, asked).err();
            let reason = found.as_ref().map(Refused::reason);
            assert_eq!(reason, refused, "{from} {asked}");
        }
        let unset = LinksSpec::default();
        assert_eq!(allowed(&unset, "links", "links", "x"), Ok(()));
        assert!(allowed(&unset, "links", "shop", "shop-x").is_err());
    }

    #[test]
    fn the_refusal_names_the_setting_and_the_prefixes() {
        let links: LinksSpec = serde_json::from_value(
            json!({"allowedNamespaces": [{"name": "shop", "codePrefixes": ["s_", "shop-"]}]}),
        )
        .unwrap();
        let text = |from: &str| {
            let refused = allowed(&links, "links", from, "x").unwrap_err();
            refused.to_string()
        };
        let namespace = text("press");
        assert!(
            namespace.contains(
                "namespace press: its owner adds the namespace to links.allowedNamespaces"
            ),
            "{namespace}"
        );
        let code = text("shop");
        assert!(code.contains("begin with s_ or shop-:"), "{code}");
    }
}
