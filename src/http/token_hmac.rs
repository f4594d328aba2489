//! HMAC for `jsonwebtoken`, by ring, which TLS needs anyway. The library's own providers bring every
//! algorithm that tokens may have, RSA and elliptic curves among them: half a minute of a build.

use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Signer, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use ring::hmac;

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    // It is for JSON Web Keys, which the server does not use.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Has the library sign and verify by this from now on.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // It fails where there is another one, which signs as well.
        let _ = PROVIDER.install_default();
    });
}

struct TokenHmac {
    algorithm: Algorithm,
    key: hmac::Key,
}

impl TokenHmac {
    fn new(algorithm: Algorithm, secret: &[u8]) -> Result<Self> {
        let hmac = match algorithm {
            Algorithm::HS256 => hmac::HMAC_SHA256,
            Algorithm::HS384 => hmac::HMAC_SHA384,
            Algorithm::HS512 => hmac::HMAC_SHA512,
            _ => return Err(ErrorKind::InvalidAlgorithm.into()),
        };
        Ok(Self { algorithm, key: hmac::Key::new(hmac, secret) })
    }
}

fn signer(algorithm: &Algorithm, secret: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Ok(Box::new(TokenHmac::new(*algorithm, secret.as_bytes())?))
}

fn verifier(algorithm: &Algorithm, secret: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    Ok(Box::new(TokenHmac::new(*algorithm, secret.try_get_as_bytes()?)?))
}

impl Signer<Vec<u8>> for TokenHmac {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, Error> {
        Ok(hmac::sign(&self.key, message).as_ref().to_vec())
    }
}

impl JwtSigner for TokenHmac {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for TokenHmac {
    /// In constant time.
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        hmac::verify(&self.key, message, signature).map_err(|_| Error::new())
    }
}

impl JwtVerifier for TokenHmac {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
