//! `Debug` for types that contain secrets.

/// Implements `Debug` for a type that contains a secret: it shows these fields and no others.
#[macro_export]
macro_rules! debug_only {
    ($name:ident: $($field:ident),+) => {
        impl ::std::fmt::Debug for $name {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let mut shown = formatter.debug_struct(stringify!($name));
                $(shown.field(stringify!($field), &self.$field);)+
                shown.finish_non_exhaustive()
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use crate::{api::ApiKeyRef, model::facts::Referenced};

    #[test]
    fn a_value_of_a_secret_shows_in_no_log() {
        let key = Referenced {
            reference: ApiKeyRef {
                name: "keys".to_owned(),
                key: "api-key".to_owned(),
            },
            value: Some(ByteString(b"s3cret".to_vec())),
            usable: true,
        };
        let shown = r#"Referenced { reference: ApiKeyRef { name: "keys", key: "api-key" }, usable: true, .. }"#;
        assert_eq!(format!("{key:?}"), shown);
    }
}
