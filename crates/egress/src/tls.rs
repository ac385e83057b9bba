//! The TLS side of the client, without any process-wide state.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

/// Which certificate authorities are trusted.
#[derive(Debug, Clone, Default)]
pub struct TrustRoots {
    /// Whether the machine's own authorities are trusted.
    pub system: bool,
    /// More authorities, as PEM text.
    pub extra_pem: Vec<Vec<u8>>,
}

/// The authorities could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the TLS trust roots can't be loaded: {0}")]
pub struct TrustError(pub String);

impl TrustRoots {
    /// The machine's own authorities and no others.
    pub fn system() -> Self {
        Self { system: true, extra_pem: Vec::new() }
    }

    /// The configuration of a TLS client that trusts these roots.
    ///
    /// # Errors
    /// [`TrustError`] when a PEM text holds no certificate, or one that can't be read.
    pub fn client_config(&self) -> Result<ClientConfig, TrustError> {
        let mut roots = RootCertStore::empty();
        if self.system {
            // A machine without authorities can still call plain http; https then says why it fails.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        for pem in &self.extra_pem {
            let certificates = CertificateDer::pem_slice_iter(pem)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| TrustError(error.to_string()))?;
            if certificates.is_empty() {
                return Err(TrustError("the PEM text holds no certificate".to_owned()));
            }
            for certificate in certificates {
                roots.add(certificate).map_err(|error| TrustError(error.to_string()))?;
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TrustError(error.to_string()))?;
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }
}
