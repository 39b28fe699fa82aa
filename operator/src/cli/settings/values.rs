//! Types for settings that have a syntax of their own.

use std::{collections::BTreeMap, str::FromStr};

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use shortener_operator_core::model::defaults::PodTemplatePolicy;

/// Namespaces, sorted and without duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces(pub Vec<String>);

impl FromStr for Namespaces {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut names: Vec<String> = items(text).map(str::to_owned).collect();
        if let Some(wrong) = names.iter().find(|name| !is_label(name)) {
            return Err(format!(
                "`{wrong}` is not the name of a namespace: write lower case letters, digits and '-'"
            ));
        }
        names.sort();
        names.dedup();
        Ok(Self(names))
    }
}

/// Labels that pods must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels(pub BTreeMap<String, String>);

impl FromStr for Labels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let label = |item: &str| match item.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok((key.trim().to_owned(), value.trim().to_owned()))
            }
            _ => Err(format!(
                "`{item}` is not a label: write key=value, separated by commas"
            )),
        };
        let labels = items(text)
            .map(label)
            .collect::<Result<BTreeMap<_, _>, _>>()?;
        if labels.is_empty() {
            // No label would select every pod of the namespace.
            Err("is empty: name at least one label of the operator's pods".to_owned())
        } else {
            Ok(Self(labels))
        }
    }
}

/// Peers of a NetworkPolicy.
#[derive(Clone, Debug, PartialEq)]
pub struct Peers(pub Vec<NetworkPolicyPeer>);

impl FromStr for Peers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let peers = serde_json::from_str(text);
        peers
            .map(Self)
            .map_err(|error| format!("is not a JSON list of NetworkPolicyPeer: {error}"))
    }
}

/// Names of hosts, each of which may begin with `*.`; `*` is every host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts(pub Vec<String>);

impl FromStr for Hosts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_host = |item: &&str| {
            let name = item.strip_prefix("*.").unwrap_or(item);
            *item == "*"
                || name
                    .split('.')
                    .all(|label| !label.is_empty() && is_label(label))
        };
        if let Some(wrong) = items(text).find(|item| !is_host(item)) {
            return Err(format!(
                "`{wrong}` is not a host: write lower case letters, digits, '-' and '.', and at most *. before them"
            ));
        }
        Ok(Self(items(text).map(str::to_owned).collect()))
    }
}

/// Reads what users who edit stacks can do with `podTemplate`.
///
/// # Errors
/// The text is no such policy.
pub fn pod_template_policy(text: &str) -> Result<PodTemplatePolicy, String> {
    match text {
        "Restricted" => Ok(PodTemplatePolicy::Restricted),
        "Unrestricted" => Ok(PodTemplatePolicy::Unrestricted),
        _ => Err(format!(
            "`{text}` is not a policy: write Restricted or Unrestricted"
        )),
    }
}

/// Reads the class of the operator's stacks; empty for those without one.
///
/// # Errors
/// The text is no class that a stack can have.
pub fn class(text: &str) -> Result<String, String> {
    if is_label(text) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "`{text}` is not a class: write at most 63 lower case letters, digits and '-'"
        ))
    }
}

/// Returns true when a text has the characters and the length of a DNS label.
fn is_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= 63 && text.bytes().all(plain)
}

/// A part of a whole, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let share = text.trim().parse::<f64>().ok();
        let share = share.filter(|share| (0.0..=1.0).contains(share));
        share.map(Self).ok_or_else(|| {
            format!("`{text}` is not a share: write a number from 0 (none) to 1 (all)")
        })
    }
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}
