//! The certificate that the API is served with.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Reads a certificate chain and its key from PEM files.
pub(crate) fn server_config(cert: &Path, key: &Path) -> anyhow::Result<Arc<ServerConfig>> {
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("server.tls_cert {} can't be read", cert.display()))?;
    let key =
        PrivateKeyDer::from_pem_file(key).with_context(|| format!("server.tls_key {} can't be read", key.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("TLS")?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("server.tls_cert and server.tls_key do not fit together")?;
    Ok(Arc::new(config))
}
