//! Certificates and keys for servers with TLS.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};

use super::{CERTIFICATES, lifetime::Folder};

/// An authority that signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
}

/// Writes the files into the folder and returns its path.
pub(super) fn write(folder: &Folder) -> Result<[String; 1]> {
    let [good, other] = [authority("good")?, authority("other")?];
    let key = KeyPair::generate()?;
    let valid = leaf("localhost", ExtendedKeyUsagePurpose::ServerAuth)?;
    let mut outdated = valid.clone();
    outdated.not_before = date_time_ymd(2000, 1, 1);
    outdated.not_after = date_time_ymd(2001, 1, 1);
    let client_key = KeyPair::generate()?;
    let client = leaf("client.test", ExtendedKeyUsagePurpose::ClientAuth)?;
    let signed = |params: &CertificateParams, key: &KeyPair| {
        let certificate = params.signed_by(key, &good.issuer)?;
        anyhow::Ok(certificate.pem())
    };
    for (name, content) in [
        ("ca.crt", good.certificate.pem()),
        ("other-ca.crt", other.certificate.pem()),
        ("server.crt", signed(&valid, &key)?),
        ("expired.crt", signed(&outdated, &key)?),
        ("server.key", key.serialize_pem()),
        ("client.crt", signed(&client, &client_key)?),
        ("client.key", client_key.serialize_pem()),
    ] {
        fs::write(folder.path(name), content)?;
    }
    // This command does nothing but end, and the folder is removed then.
    folder.start(&Command::new("cat"))?.ready(|_| Some(()))?;
    Ok([folder.path("").display().to_string()])
}

/// Returns the path of a file.
pub(super) fn path(name: &str) -> Result<PathBuf> {
    let [folder] = CERTIFICATES.addresses()?;
    Ok(PathBuf::from(folder).join(name))
}

/// Returns the option of a container that puts the content of a file into a variable.
pub(super) fn variable(variable: &str, name: &str) -> Result<String> {
    let content = fs::read_to_string(path(name)?)
        .with_context(|| format!("the certificate {name} cannot be read"))?;
    Ok(format!("--env={variable}={content}"))
}

fn authority(name: &str) -> Result<Authority> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate()?;
    Ok(Authority {
        certificate: params.self_signed(&key)?,
        issuer: Issuer::new(params, key),
    })
}

fn leaf(name: &str, usage: ExtendedKeyUsagePurpose) -> Result<CertificateParams> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![usage];
    Ok(params)
}
