//! The table of the routes of the public port: what applies to a request before its handler.
//!
//! [`crate::router`] has the handlers, and `openapi.json` describes them; a test keeps the three equal.

use crate::{scope::Scope, storage::Stores};

/// One route.
#[derive(Clone, Copy, Debug)]
pub struct RouteRow {
    /// The template, as the router spells it. Metrics and logs name the route by it; paths are never labels.
    pub template: &'static str,
    /// True if a POST creates links, which has a rate limit of its own.
    pub creates: bool,
    /// The least scope that a key needs, where the stack asks for one; `None` if the route is open to everyone. What more scopes
    /// give is the subject of [`crate::rights`].
    pub scope: Option<Scope>,
    /// The data that a POST or PUT stores; `None` if it stores nothing, or only for clients with keys.
    pub stores: Option<Stores>,
    /// True if people open it in a browser, which gets pages for errors.
    pub page: bool,
}

impl RouteRow {
    /// Returns true if scripts of other origins may use the route, where the settings allow their origin.
    pub fn is_for_scripts(self) -> bool {
        matches!(self.scope, Some(Scope::Shorten | Scope::Jobs | Scope::Docs))
    }

    /// Returns true if the answers tell the rate limit of the client. A scraper of metrics has no use for it.
    pub fn tells_limit(self) -> bool {
        self.scope != Some(Scope::Metrics)
    }
}

const REDIRECT: &str = "/{code}";
const WITH_ARGUMENTS: &str = "/{code}/{arguments}";
const SHORTEN: &str = "/shorten";
/// The template, and the path, of new jobs.
pub const JOBS: &str = "/jobs";
const PREVIEW: &str = "/{code}+";
/// The end of a path that shows a link instead of following it. No code contains it.
pub const PREVIEW_SUFFIX: char = '+';

/// The page and the files of the console. They are no part of the API, so the OpenAPI document leaves them out.
pub const CONSOLE: [&str; 4] = [
    "/console",
    "/console/",
    "/console/{file}",
    "/console/vendor/{file}",
];

/// The routes. The first one stands for every request that matched none.
pub const ROUTES: [RouteRow; 39] = [
    page("unmatched"),
    page(REDIRECT),
    RouteRow {
        creates: true,
        stores: Some(Stores::Links),
        ..scoped(SHORTEN, Scope::Shorten)
    },
    open("/health"),
    scoped("/metrics", Scope::Metrics),
    RouteRow {
        stores: Some(Stores::Jobs),
        ..scoped(JOBS, Scope::Jobs)
    },
    scoped("/jobs/{id}", Scope::Jobs),
    RouteRow {
        stores: Some(Stores::Documents),
        ..scoped("/docs/{id}", Scope::Docs)
    },
    scoped("/docs/query", Scope::Docs),
    scoped("/api/admin/overview", Scope::LinksOwn),
    scoped("/api/admin/links", Scope::LinksOwn),
    scoped("/api/admin/links/{code}", Scope::LinksOwn),
    scoped("/api/admin/links/{code}/disable", Scope::LinksOwn),
    scoped("/api/admin/links/{code}/enable", Scope::LinksOwn),
    scoped("/api/admin/links/{code}/clicks", Scope::LinksOwn),
    scoped("/api/admin/clicks/top", Scope::LinksOwn),
    scoped("/api/admin/dead-letters", Scope::Admin),
    scoped("/api/admin/dead-letters/{id}", Scope::Admin),
    scoped("/api/admin/dead-letters/replay", Scope::Admin),
    scoped("/api/admin/dead-letters/drop", Scope::Admin),
    scoped("/api/admin/audit", Scope::Admin),
    open("/api/links/{code}/qr.svg"),
    open("/api/links/{code}/qr.png"),
    scoped("/api/admin/export/links", Scope::LinksOwn),
    scoped("/api/admin/import/links", Scope::LinksAll),
    scoped("/api/admin/transfer", Scope::LinksAll),
    scoped("/api/admin/erase", Scope::Admin),
    scoped("/api/admin/webhooks", Scope::Admin),
    scoped("/api/admin/webhooks/deliveries", Scope::Admin),
    scoped("/api/admin/webhooks/deliveries/{id}/retry", Scope::Admin),
    scoped("/api/admin/webhooks/deliveries/retry", Scope::Admin),
    open("/openapi.json"),
    page("/"),
    page(PREVIEW),
    page(WITH_ARGUMENTS),
    page(CONSOLE[0]),
    page(CONSOLE[1]),
    page(CONSOLE[2]),
    page(CONSOLE[3]),
];

const fn open(template: &'static str) -> RouteRow {
    RouteRow {
        template,
        creates: false,
        scope: None,
        stores: None,
        page: false,
    }
}

const fn page(template: &'static str) -> RouteRow {
    RouteRow {
        page: true,
        ..open(template)
    }
}

const fn scoped(template: &'static str, scope: Scope) -> RouteRow {
    RouteRow {
        scope: Some(scope),
        ..open(template)
    }
}

/// An index into [`ROUTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route(usize);

impl Route {
    pub const REDIRECT: Self = Self(1);
    pub const SHORTEN: Self = Self(2);
    /// The route of links with arguments.
    pub const WITH_ARGUMENTS: Self = Self(34);
    /// The route of new jobs.
    pub const JOBS: Self = Self(5);

    /// Returns the route of a template that the router matched; anything else is `unmatched`.
    pub fn from_template(template: Option<&str>) -> Self {
        let place =
            template.and_then(|template| ROUTES.iter().position(|row| row.template == template));
        Self(place.unwrap_or(0))
    }

    /// Returns the route of a request, by the template that the router matched and by its path. The router has no
    /// pattern for a suffix, so it takes previews for redirects.
    pub fn of(template: Option<&str>, path: &str) -> Self {
        match template {
            Some(REDIRECT) if path.ends_with(PREVIEW_SUFFIX) => Self::from_template(Some(PREVIEW)),
            template => Self::from_template(template),
        }
    }

    pub fn row(self) -> RouteRow {
        ROUTES[self.0]
    }

    /// Returns the template.
    pub fn as_str(self) -> &'static str {
        self.row().template
    }

    /// Returns true if the request matched a route.
    pub fn is_known(self) -> bool {
        self.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::RESERVED;

    #[test]
    fn the_first_segment_of_every_route_is_reserved() {
        let links = ["unmatched", "/", REDIRECT, PREVIEW, WITH_ARGUMENTS];
        let rows = ROUTES.iter().map(|row| row.template);
        for path in rows.filter(|path| !links.contains(path)) {
            let first = path.split('/').nth(1).unwrap();
            assert!(
                RESERVED.contains(&first),
                "{path} could be mistaken for a code"
            );
        }
    }

    #[test]
    fn only_links_their_pictures_health_the_document_and_files_are_open_to_everyone() {
        let open = ROUTES.iter().filter(|row| row.scope.is_none());
        let open: Vec<&str> = open.map(|row| row.template).collect();
        assert_eq!(
            open,
            [
                "unmatched",
                "/{code}",
                "/health",
                "/api/links/{code}/qr.svg",
                "/api/links/{code}/qr.png",
                "/openapi.json",
                "/",
                "/{code}+",
                "/{code}/{arguments}",
                "/console",
                "/console/",
                "/console/{file}",
                "/console/vendor/{file}"
            ]
        );
    }

    #[test]
    fn people_open_links_and_what_matched_nothing_and_scripts_use_the_rest() {
        for row in ROUTES {
            assert!(!(row.page && row.is_for_scripts()), "{row:?}");
            assert!(!row.page || row.scope.is_none(), "{row:?}");
            let manages = row.scope.is_some_and(Scope::is_management);
            assert!(!(manages && row.is_for_scripts()), "{row:?}");
        }
        let scripts = ROUTES.iter().filter(|row| row.is_for_scripts());
        assert_eq!(scripts.count(), 5);
    }

    #[test]
    fn the_routes_with_names_have_their_templates() {
        assert_eq!(Route::REDIRECT.as_str(), REDIRECT);
        assert_eq!(Route::SHORTEN.as_str(), SHORTEN);
        assert_eq!(Route::JOBS.as_str(), JOBS);
        assert_eq!(Route::WITH_ARGUMENTS.as_str(), WITH_ARGUMENTS);
    }

    #[test]
    fn a_preview_has_a_route_of_its_own() {
        for (template, path, expected) in [
            (Some("/{code}"), "/abc", "/{code}"),
            (Some("/{code}"), "/abc+", "/{code}+"),
            (Some("/{code}"), "/+", "/{code}+"),
            (Some("/docs/{id}"), "/docs/1+", "/docs/{id}"),
            (None, "/a/b+", "unmatched"),
        ] {
            assert_eq!(Route::of(template, path).as_str(), expected, "{path}");
        }
    }

    #[test]
    fn management_and_nothing_else_needs_a_scope_of_management() {
        for row in ROUTES {
            let manages = row.template.starts_with("/api/admin");
            let needed = row.scope.is_some_and(Scope::is_management);
            assert_eq!(needed, manages, "{row:?}");
        }
    }

    #[test]
    fn a_path_that_matched_nothing_is_never_a_label() {
        assert_eq!(Route::from_template(None).as_str(), "unmatched");
        assert_eq!(Route::from_template(Some("/x")).as_str(), "unmatched");
    }
}
