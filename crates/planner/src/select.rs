//! Which engine a request gets: floors, policy, settings, preference, order (C2, C3; R16 §4.6, §4.7).

use crate::compile::CompileError;
use crate::provider::{Compiler, Offer, Persistence, ProviderIdentity, ProviderRefusal, Providers, Refusal, Site};
use hipplan_serialize::{Knob, Policy, VerifiedGraph, canon, engine_id_of_text};

/// What one provider says about a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderAnswer {
    /// The provider.
    pub provider: ProviderIdentity,
    /// Its engines for the graph, best first, or why it has none.
    pub offers: Result<Vec<Offer>, Refusal>,
}

/// Asks every provider what it would do with a graph, in order of preference. Nothing is compiled. Providers that are not in use are
/// in [`Providers::unusable`].
///
/// # Errors
/// The graph has no key.
pub fn survey(graph: &VerifiedGraph<'_>, site: &Site, providers: &Providers) -> Result<Vec<ProviderAnswer>, CompileError> {
    let canonical = graph.canonical()?;
    // Providers see the decoded encoding, as when they compile.
    let owned = canon::decode(&canonical.encoding, &canonical.limits)?;
    let ask = |provider: &dyn Compiler| ProviderAnswer { provider: provider.identity(), offers: ask(provider, &owned.view(), site) };
    Ok(providers.iter().map(ask).collect())
}

/// The version floor comes before a provider sees anything of the graph.
fn ask(provider: &dyn Compiler, graph: &VerifiedGraph<'_>, site: &Site) -> Result<Vec<Offer>, Refusal> {
    let (floor, reported) = (graph.api_floor(), provider.identity().api_version);
    if reported < floor {
        return Err(Refusal::ApiVersion { floor, reported });
    }
    provider.offers(graph, site)
}

/// What is to become of the compiled graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is kept.
    Store,
    /// This process executes it.
    ThisProcess,
}

/// The engine for a request.
pub(crate) struct Choice<'p> {
    pub(crate) provider: &'p dyn Compiler,
    pub(crate) offer: Offer,
    /// The policy that chose it: without a preference that nobody meets, so that it is filed where a later request finds it that meets one.
    pub(crate) policy: Policy,
}

/// The engine for a canonical graph. The first in order that the policy admits, or the preferred one if it is among them. For a store,
/// engines that cannot persist are passed over.
pub(crate) fn choose<'p>(
    graph: &VerifiedGraph<'_>,
    site: &Site,
    policy: &Policy,
    providers: &'p Providers,
    purpose: Use,
) -> Result<Choice<'p>, CompileError> {
    let mut refusals = Vec::new();
    let mut first: Option<(&dyn Compiler, Offer)> = None;
    for provider in providers.iter() {
        let name = provider.identity().name;
        let admitted = match &policy.provider {
            Some(asked) if *asked != name => Err(Refusal::Policy(format!("provider {asked} was asked for"))),
            _ => ask(provider, graph, site).and_then(|offers| admit(offers, policy)),
        };
        match admitted {
            Err(reason) => refusals.push(ProviderRefusal { provider: name, reason }),
            Ok(offers) => {
                for offer in offers {
                    if let (Persistence::ProcessOnly(reason), Use::Store) = (&offer.persistence, purpose) {
                        let reason = Refusal::CannotPersist { engine: offer.engine, reason: reason.clone() };
                        refusals.push(ProviderRefusal { provider: name.clone(), reason });
                        continue;
                    }
                    if policy.preferred.is_none_or(|id| id == engine_id_of_text(&offer.engine)) {
                        return Ok(Choice { provider, offer, policy: policy.clone() });
                    }
                    first.get_or_insert((provider, offer));
                }
            }
        }
    }
    if let Some((provider, offer)) = first {
        return Ok(Choice { provider, offer, policy: policy.without_preference() });
    }
    refusals.extend(providers.unusable().iter().cloned());
    if refusals.iter().any(|refusal| matches!(refusal.reason, Refusal::CannotPersist { .. })) {
        return Err(CompileError::CannotPersist { target: site.target().to_string(), refusals });
    }
    Err(CompileError::NoApplicableEngines { target: site.target().to_string(), refusals })
}

/// The engines that the policy lets through, with its settings.
fn admit(offers: Vec<Offer>, policy: &Policy) -> Result<Vec<Offer>, Refusal> {
    if offers.is_empty() {
        return Err(Refusal::Declined("it offers no engine".to_owned()));
    }
    let known = offers.iter().map(|o| o.engine.as_str()).collect::<Vec<_>>().join(", ");
    let is_asked = |offer: &Offer| match &policy.engine {
        None => true,
        Some(text) => offer.engine == *text || engine_id_of_text(&offer.engine) == engine_id_of_text(text),
    };
    let asked: Vec<Offer> = offers.into_iter().filter(is_asked).collect();
    if let (Some(text), []) = (&policy.engine, asked.as_slice()) {
        return Err(Refusal::Policy(format!("engine {text} was asked for; it has {known}")));
    }
    let mut reason = None;
    let mut admitted = Vec::with_capacity(asked.len());
    for offer in asked {
        match with_settings(offer, &policy.knobs) {
            Ok(offer) => admitted.push(offer),
            Err(why) => _ = reason.get_or_insert(why),
        }
    }
    match (admitted.is_empty(), reason) {
        (true, Some(reason)) => Err(Refusal::Knob(reason)),
        _ => Ok(admitted),
    }
}

/// The engine with these settings, each of which it must know; values in the text that a key holds.
fn with_settings(mut offer: Offer, knobs: &[Knob]) -> Result<Offer, String> {
    let engine = &offer.engine;
    for Knob { id, value } in knobs {
        let Some(known) = offer.knobs.iter().find(|known| known.id == *id) else {
            let ids = offer.knobs.iter().map(|known| known.id.as_str()).collect::<Vec<_>>().join(", ");
            let has = if ids.is_empty() { "it has none".to_owned() } else { format!("it has {ids}") };
            return Err(format!("engine {engine} does not know the knob {id}; {has}"));
        };
        if offer.settings.iter().any(|setting| setting.id == *id) {
            return Err(format!("engine {engine}: the knob {id} is set twice"));
        }
        let value = known.parse_value(value).map_err(|error| format!("engine {engine}: {error}"))?;
        offer.settings.push(Knob { id: id.clone(), value: value.to_string() });
    }
    offer.settings.sort();
    Ok(offer)
}
