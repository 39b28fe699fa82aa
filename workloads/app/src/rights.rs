//! The rights of a client in management. No other module decides about them.
//!
//! The table of routes names the least scope of each route. [`crate::observe`] adds the rights to a request, a handler takes them
//! as an argument, and every query for links asks for them.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;

use crate::{auth::Client, error::Error, scope::Scope};

/// The links that a request of management may see and change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rights {
    /// All links.
    Everything,
    /// The links that this client created, or that were transferred to it.
    Own(Arc<str>),
}

/// The result of looking for a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    Some(T),
    /// The link exists, and the rights do not include it.
    Foreign,
    /// The code was never assigned.
    Unknown,
}

impl Rights {
    /// Returns the rights of a client on a route that needs at least this scope; `None` if it has none.
    pub fn of(least: Scope, client: &Client) -> Option<Self> {
        let scopes = client.scopes;
        let may_all = match least {
            Scope::LinksOwn | Scope::LinksAll => {
                scopes.contains(Scope::LinksAll) || scopes.contains(Scope::Admin)
            }
            scope => scopes.contains(scope),
        };
        match least {
            _ if may_all => Some(Self::Everything),
            Scope::LinksOwn if scopes.contains(Scope::LinksOwn) => {
                Some(Self::Own(Arc::clone(&client.name)))
            }
            _ => None,
        }
    }

    /// Returns the client whose links they are; `None` if they are all links.
    pub fn owner(&self) -> Option<&str> {
        match self {
            Self::Everything => None,
            Self::Own(client) => Some(client),
        }
    }

    /// Returns true if they include the links of this creator.
    pub fn include(&self, created_by: Option<&str>) -> bool {
        self.owner().is_none_or(|owner| created_by == Some(owner))
    }
}

impl<S: Sync> FromRequestParts<S> for Rights {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        let rights = parts.extensions.get().cloned();
        rights.ok_or_else(|| Error::Internal("management without rights".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{route::ROUTES, scope::Scopes};

    /// Returns the answers to a client with each scope alone, in the order of [`Scope::ALL`]: `*` for everything, `o` for own
    /// links, and `-` for a refusal.
    fn answers(least: Scope) -> String {
        let answer = |scope| {
            let client = Client {
                name: "shop".into(),
                number: 0,
                scopes: Scopes::from_iter([scope]),
            };
            match Rights::of(least, &client) {
                Some(Rights::Everything) => '*',
                Some(Rights::Own(name)) if &*name == "shop" => 'o',
                Some(Rights::Own(_)) | None => '-',
            }
        };
        Scope::ALL.into_iter().map(answer).collect()
    }

    #[test]
    fn every_route_of_management_answers_each_scope_as_this_table_says() {
        let (own, all, admin) = ("----o**", "-----**", "------*");
        let table = [
            ("/api/admin/overview", own),
            ("/api/admin/links", own),
            ("/api/admin/links/{code}", own),
            ("/api/admin/links/{code}/disable", own),
            ("/api/admin/links/{code}/enable", own),
            ("/api/admin/links/{code}/clicks", own),
            ("/api/admin/clicks/top", own),
            ("/api/admin/export/links", own),
            ("/api/admin/import/links", all),
            ("/api/admin/transfer", all),
            ("/api/admin/erase", admin),
            ("/api/admin/dead-letters", admin),
            ("/api/admin/dead-letters/{id}", admin),
            ("/api/admin/dead-letters/replay", admin),
            ("/api/admin/dead-letters/drop", admin),
            ("/api/admin/audit", admin),
            ("/api/admin/webhooks", admin),
            ("/api/admin/webhooks/deliveries", admin),
            ("/api/admin/webhooks/deliveries/{id}/retry", admin),
            ("/api/admin/webhooks/deliveries/retry", admin),
        ];
        let manages = |template: &str| template.starts_with("/api/admin");
        let rows = ROUTES.iter().filter(|row| manages(row.template));
        let mut named = 0;
        for row in rows {
            let expected = table.iter().find(|(path, _)| *path == row.template);
            let (path, expected) = expected.unwrap_or_else(|| panic!("{row:?} is not here"));
            assert_eq!(answers(row.scope.unwrap()), *expected, "{path}");
            named += 1;
        }
        assert_eq!(named, table.len());
    }

    #[test]
    fn the_other_scopes_are_their_own_and_a_set_of_all_reaches_everything() {
        for scope in [Scope::Shorten, Scope::Jobs, Scope::Docs, Scope::Metrics] {
            let expected = Scope::ALL.map(|other| if other == scope { '*' } else { '-' });
            assert_eq!(answers(scope), String::from_iter(expected));
        }
        let client = Client {
            name: "shop".into(),
            number: 0,
            scopes: Scopes::all(),
        };
        for scope in Scope::ALL {
            assert_eq!(Rights::of(scope, &client), Some(Rights::Everything));
        }
    }

    #[test]
    fn own_links_are_those_of_the_client_and_no_others() {
        let own = Rights::Own("shop".into());
        for creator in [None, Some("mail"), Some("shop2"), Some("shop")] {
            assert!(Rights::Everything.include(creator));
            assert_eq!(own.include(creator), creator == Some("shop"), "{creator:?}");
        }
    }
}
