//! Reading a key.

use super::cache::{Moment, Place};
use super::late::{Late, first_copies, is_alone};
use super::{ATTEMPTS_MAX, Client, Error, Step, Trouble, all_written, bytes_read, read, region};
use crate::index::candidates::{Candidates, REQUESTS, Seen, Segment, requests};
use crate::index::layout::{Hash, SIBLING_AT};
use crate::mutant::{self, Mutant};
use crate::object::{Identity, Kind, Outcome, Record, Table};
use crate::verbs::{Address, Completion, GRANULE, Request, Verbs};
use crate::view::{Control, View};

/// An object of the index that has a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Found {
    /// Its slot.
    pub seen: Seen,
    /// Where it is.
    pub at: Address,
    /// The change that wrote it.
    pub identity: Identity,
    /// What that change was.
    pub kind: Kind,
    /// How that change has gone, as far as the primary of its log says.
    pub said: Option<Outcome>,
    /// The value; empty if it is in extents.
    pub value: Vec<u8>,
    /// Where its extents are, if it is.
    pub table: Option<Table>,
}

/// An object that was read before it was known whether it is the key's.
pub(super) struct Ahead {
    place: Place,
    bytes: Vec<u8>,
}

impl Ahead {
    /// What the last completion says, whose request was made for the place.
    pub fn of(asked: Option<(Place, Request)>, completions: Vec<Completion>) -> Option<Self> {
        let (place, _) = asked?;
        match completions.into_iter().next_back()? {
            Completion::Read(bytes) if bytes.len() == place.len as usize => Some(Self { place, bytes }),
            _ => None,
        }
    }
}

impl Found {
    /// The same, if the last copy of its log was written along with its being read, which may have come before.
    pub fn written(self, late: &[Identity]) -> Self {
        match late.contains(&self.identity) {
            true => Self {
                said: Some(Outcome::Decided),
                ..self
            },
            false => self,
        }
    }

    fn of(seen: Seen, at: Address, record: &Record<'_>, bytes: &[u8]) -> Self {
        Self {
            seen,
            at,
            identity: record.identity,
            kind: record.kind,
            said: Outcome::decode(bytes, record.identity),
            value: Vec::new(),
            table: None,
        }
    }
}

impl<N: Verbs + Control> Client<N> {
    /// The value of a key; `None` if it is bound to none.
    ///
    /// Cost: two round trips; one if the key was used in the same era and has not changed since. More for the first key
    /// of a segment, if the segment is being split, or while the key is being inserted. One more for each four blocks
    /// of a value that a block has no room for.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.found(key).await?.map(|found| found.value))
    }

    /// The object that a key is bound to.
    pub(super) async fn found(&self, key: &[u8]) -> Result<Option<Found>, Error> {
        let era = self.heap.borrow_mut().pin(self.net.eras());
        let found = self
            .under_views(async |view| self.get_once(view, key, era).await)
            .await;
        self.heap.borrow_mut().unpin(era);
        found
    }

    async fn get_once(&self, view: &View, key: &[u8], era: u64) -> Step<Option<Found>> {
        let hash = Hash::of(key);
        let now = Moment {
            era,
            view: view.number,
        };
        let ahead = self.ahead(view, &hash, now);
        let (mut along, late_of) = self.late_copies(view, era);
        let written = along.len();
        along.extend(ahead.iter().map(|(_, request)| request.clone()));
        let (candidates, completions) = self.read_candidates(view, &hash, &along).await?;
        all_written(&along[..written], &completions)?;
        let ahead = Ahead::of(ahead, completions);
        let Some(found) = self.find(view, &candidates, &hash, key, ahead).await? else {
            self.wrote_late(&late_of);
            self.cache.borrow_mut().forget(&hash);
            return Ok(None);
        };
        let found = found.written(&late_of);
        self.wrote_late(&late_of);
        self.cache.borrow_mut().saw(&hash, found.seen.slot, now);
        self.tell(view, &found, era).await?;
        self.whole(view, found).await.map(Some)
    }

    /// An object with its value, also if that is long.
    ///
    /// Cost: nothing, or what [`Client::gather`] costs.
    pub(super) async fn whole(&self, view: &View, found: Found) -> Step<Found> {
        let value = match &found.table {
            Some(table) => self.gather(view, found.identity, table).await?,
            None => return Ok(found),
        };
        Ok(Found { value, ..found })
    }

    /// An object of the index, with its value or the table of its extents.
    fn object(&self, seen: Seen, at: Address, record: &Record<'_>, bytes: &[u8]) -> Step<Found> {
        let found = Found::of(seen, at, record, bytes);
        Ok(match record.is_long {
            true => Found {
                table: Some(self.table(at, record.value)?),
                ..found
            },
            false => Found {
                value: record.value.to_vec(),
                ..found
            },
        })
    }

    /// The request that reads an object of a key along with its slots, if the client knows one.
    pub(super) fn ahead(&self, view: &View, hash: &Hash, now: Moment) -> Option<(Place, Request)> {
        let place = self.cache.borrow().place(hash, now)?;
        // Whatever keeps it from being read, the operation meets it when it has to.
        Some((place, read(view, place.at, place.len).ok()?))
    }

    /// Reads the candidates of a key at the primary, in its present segment, and sends some requests along with the
    /// first look.
    ///
    /// Cost: one round trip; another for each split that the client has not heard of.
    pub(super) async fn read_candidates(
        &self,
        view: &View,
        hash: &Hash,
        along: &[Request],
    ) -> Step<(Candidates, Vec<Completion>)> {
        let mut told = None;
        for attempt in 0..ATTEMPTS_MAX {
            let segment = self.segment(view, hash).await?;
            let home = region(view, segment.at.region())?;
            let node = home.primary().ok_or(Error::Lost(segment.at.region()))?;
            let mut batch = Vec::from(requests(self.layout.segments, segment, hash, node, home));
            if told.is_none() {
                batch.extend_from_slice(along);
            }
            let mut completions = self.net.post(batch).await;
            let rest = completions.split_off(REQUESTS.min(completions.len()));
            told.get_or_insert(rest);
            let candidates = Candidates::of(self.layout.segments, segment, hash, &completions)?;
            if !candidates.is_there() {
                self.known.borrow_mut().forget(hash);
                self.net.pause(attempt).await;
                continue;
            }
            match candidates.part {
                Some(_) if mutant::is(Mutant::SuccessorIgnored) => {
                    return Ok((candidates, told.unwrap_or_default()));
                }
                Some(part) => self.learn(view, segment, part).await?,
                None => return Ok((candidates, told.unwrap_or_default())),
            }
        }
        Err(Error::Damaged {
            what: "the directory, which leads nowhere",
            at: self.directory_entry(hash).bits(),
        }
        .into())
    }

    /// Takes in that a segment has been split. Cost: one round trip.
    async fn learn(&self, view: &View, segment: Segment, part: Address) -> Step<()> {
        let damaged = Error::Damaged {
            what: "a part of a segment",
            at: part.bits(),
        };
        let [first, second] = segment.label.parts().ok_or(damaged)?;
        let request = read(view, part.plus(SIBLING_AT), 8)?;
        let completions = self.net.post(vec![request.clone()]).await;
        let sibling = bytes_read(&request, completions.first())?;
        let sibling =
            Address::from_bits(sibling.try_into().map_or(u64::MAX, u64::from_le_bytes)).ok_or(damaged)?;
        let mut known = self.known.borrow_mut();
        known.insert(Segment {
            at: part,
            label: first,
        });
        known.insert(Segment {
            at: sibling,
            label: second,
        });
        Ok(())
    }

    /// The object among the candidates that has the key, of which one may have been read ahead. Those in lost regions
    /// are in the way of no key that another one has.
    ///
    /// Cost: nothing if no fingerprint is the key's, or the key's object was read ahead; else one round trip, and
    /// another if an object is longer than a slot can say.
    pub(super) async fn find(
        &self,
        view: &View,
        candidates: &Candidates,
        hash: &Hash,
        key: &[u8],
        ahead: Option<Ahead>,
    ) -> Step<Option<Found>> {
        let alike: Vec<(Seen, Address, Option<u32>)> = candidates.alike(hash.fingerprint).collect();
        if alike.is_empty() {
            return Ok(None);
        }
        if let Some(Ahead { place, bytes }) = ahead
            && let Some((seen, ..)) = alike
                .iter()
                .find(|(_, at, len)| *at == place.at && *len == Some(place.len))
            && let Some(record) = Record::decode(&bytes)
            && record.key == key
        {
            return Ok(Some(self.object(*seen, place.at, &record, &bytes)?));
        }
        let mut batch = Vec::with_capacity(alike.len());
        let (mut there, mut lost) = (Vec::with_capacity(alike.len()), None);
        for (seen, at, len) in &alike {
            match read(view, *at, len.unwrap_or(GRANULE)) {
                Ok(request) => {
                    batch.push(request);
                    there.push((seen, at, len));
                }
                // Another one may have the key.
                Err(Trouble::Failed(Error::Lost(region))) if !mutant::is(Mutant::LostInTheWay) => {
                    lost = Some(Error::Lost(region));
                }
                Err(trouble) => return Err(trouble),
            }
        }
        let completions = self.net.post(batch.clone()).await;
        for (place, (seen, at, len)) in there.into_iter().enumerate() {
            let bytes = bytes_read(&batch[place], completions.get(place))?;
            let long;
            let bytes = match len {
                Some(_) => bytes,
                None => {
                    long = self.long(view, *at, bytes).await?;
                    &long
                }
            };
            let damaged = Error::Damaged {
                what: "an object of the index",
                at: at.bits(),
            };
            let record = Record::decode(bytes).ok_or(damaged)?;
            if record.key == key || mutant::is(Mutant::FingerprintBelieved) {
                return Ok(Some(self.object(*seen, *at, &record, bytes)?));
            }
        }
        match lost {
            Some(lost) => Err(lost.into()),
            None => Ok(None),
        }
    }

    /// The bytes of an object whose first ones are known.
    pub(super) async fn long(&self, view: &View, at: Address, header: &[u8]) -> Step<Vec<u8>> {
        let damaged = Error::Damaged {
            what: "the length of an object of the index",
            at: at.bits(),
        };
        let bytes = Record::bytes(header)
            .filter(|bytes| *bytes < self.layout.block)
            .ok_or(damaged)?;
        let request = read(view, at, bytes)?;
        let completions = self.net.post(vec![request.clone()]).await;
        Ok(bytes_read(&request, completions.first())?.to_vec())
    }

    /// Sees to it that all copies of the log of an object keep it in the index. Else, if the primary dies now, another
    /// insert of its key might be chosen.
    ///
    /// Cost: nothing, but for an object that was bound to a vacant slot just now, by a client that has done nothing
    /// since: then one round trip.
    pub(super) async fn tell(&self, view: &View, found: &Found, era: u64) -> Step<()> {
        match found.said {
            Some(said) if said.outlasts() => Ok(()),
            // What the only copy of a slot shows, is.
            _ if is_alone(view, found.seen.at)? => Ok(()),
            // It may have come to this copy alone, unless there is no other.
            Some(Outcome::Bound) if is_alone(view, found.at)? || mutant::is(Mutant::LogAtOnce) => Ok(()),
            _ => self.decide(view, found, era).await,
        }
    }

    /// Sees to it that the log of an object says how its change has gone also when the index does not have it any more.
    /// Else, the change might be made again.
    ///
    /// Cost: as [`Client::tell`]; the same if the log has one copy alone, and the object was bound to a vacant slot.
    pub(super) async fn tell_before_it_goes(&self, view: &View, found: &Found, era: u64) -> Step<()> {
        match found.said {
            Some(Outcome::Decided) => Ok(()),
            // Without backups of the slot it was shown before, and may have come to this copy of the log alone.
            Some(Outcome::Won { .. }) if !is_alone(view, found.seen.at)? || is_alone(view, found.at)? => {
                Ok(())
            }
            Some(Outcome::Bound) if mutant::is(Mutant::BoundBelieved) => Ok(()),
            _ => self.decide(view, found, era).await,
        }
    }

    /// Writes *decided* to the backups of a log in an operation that began in an era; the primary's copy follows.
    async fn decide(&self, view: &View, found: &Found, era: u64) -> Step<()> {
        let (at, identity) = (found.at, found.identity);
        // The backups say so.
        if self.is_late(identity) {
            return Ok(());
        }
        let first = first_copies(view, at, identity)?;
        let completions = self.net.post(first.clone()).await;
        all_written(&first, &completions)?;
        self.note_late(Late {
            at,
            identity,
            seen: Moment {
                era,
                view: view.number,
            },
        });
        Ok(())
    }
}
