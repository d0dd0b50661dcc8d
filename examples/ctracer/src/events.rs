//! The events that the programs send, and what they become when a recording is read.
//!
//! While we trace, we only copy them into the file: whatever we do with an event then makes the traced I/O slower.

use std::collections::{BTreeMap, HashMap};
use std::mem::{offset_of, size_of};

use common::events::task_name;
use common::record::read_first;
use common::{Error, Result};

use crate::bpf::types::{bio_call, bio_data, head, thread};
use crate::records::{Bio, Call, Device, Mark, Moment, Place, Record, Return, Task};

common::record!(head { time, sp, value, tid, function, cpu_kind_interrupt });
common::record!(thread { head, comm, pid, pad });
common::record!(bio_call { head, data });
common::record!(bio_data {
    sector,
    parent,
    bytes,
    opf,
    dev,
    remaining,
    parent_remaining,
    partno,
    status,
    pad
});

/// The kinds of events, with the numbers of the BPF source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A function returned: a `struct head`.
    Return,
    /// A function was called: a `struct head`. In a recording of bios, the bio is as it was at the call before.
    Call,
    /// A function was called with a bio: a `struct bio_call`.
    BioCall,
    /// A thread has this name from here on: a `struct thread`.
    Thread,
    /// A moment of a bio's request: a `struct head`, whose function says which.
    Mark,
}

/// The first of the numbers that a mark has in place of a function's.
const MARKS: u16 = 0xfff0;
/// What they mean.
const MOMENTS: [Moment; 3] = [Moment::Made, Moment::Issued, Moment::Done];

impl Kind {
    /// Whether a function was called.
    pub fn is_call(self) -> bool {
        matches!(self, Self::Call | Self::BioCall)
    }
}

/// The sizes of what an event begins with, and of a bio's contents, in bytes.
pub const HEAD: usize = size_of::<head>();
/// See [`HEAD`].
pub const BIO: usize = size_of::<bio_data>();

/// The byte of an event that has its kind, from bit 5 on.
const KIND: usize = offset_of!(head, cpu_kind_interrupt) + 1;
/// The first byte that has its function.
const FUNCTION: usize = offset_of!(head, function);

/// The kind of an event that begins like this.
#[inline]
pub fn kind(head: &[u8; HEAD]) -> Kind {
    let [low, high] = [head[FUNCTION], head[FUNCTION + 1]];
    match head[KIND] >> 5 & 3 {
        0 => Kind::Return,
        1 if u16::from_ne_bytes([low, high]) >= MARKS => Kind::Mark,
        1 => Kind::Call,
        2 => Kind::BioCall,
        _ => Kind::Thread,
    }
}

/// The first of the events in `bytes`; `None` if there is none, or not all of it.
fn first(bytes: &[u8]) -> Option<(Kind, &[u8])> {
    let kind = kind(bytes.first_chunk()?);
    let length = match kind {
        Kind::Return | Kind::Call | Kind::Mark => HEAD,
        Kind::BioCall => size_of::<bio_call>(),
        Kind::Thread => size_of::<thread>(),
    };
    Some((kind, bytes.get(..length)?))
}

/// A [`Kind::BioCall`] as a [`Kind::Call`], which means in a recording of bios that the bio is as it was at the call
/// before.
#[inline]
pub fn without_bio(mut head: [u8; HEAD]) -> [u8; HEAD] {
    head[KIND] = head[KIND] & !(3 << 5) | 1 << 5;
    head
}

/// The device as the kernel has it in the bio: its number, and on 5.10 the number of the disk and that of the partition
/// on it.
#[inline]
pub fn device(bio: &[u8; BIO]) -> (u32, u8) {
    let number = bio[offset_of!(bio_data, dev)..].first_chunk();
    (number.map_or(0, |bytes| u32::from_ne_bytes(*bytes)), bio[offset_of!(bio_data, partno)])
}

/// The error for events that do not end where they should.
pub fn not_whole(bytes: &[u8]) -> Error {
    Error::new("an event is not as long as it should be")
        .evidence(format!("{} bytes are left", bytes.len()))
        .fix("record again")
}

/// Turns events into the records of a recording.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The recording's number of each function, by the number in the events.
    functions: HashMap<u16, u32>,
    /// The number of each device, by what [`device`] returns.
    devices: BTreeMap<(u32, u8), u32>,
    /// The threads whose name no call has needed so far.
    threads: HashMap<u32, Task>,
    /// The bio of the last call.
    bio: Option<Bio>,
}

impl Decoder {
    /// For a recording whose header has these [`ids`](crate::records::Header::ids).
    pub fn new(ids: &[u16]) -> Self {
        Self { functions: ids.iter().copied().zip(0..).collect(), ..Self::default() }
    }

    /// Notes a device of the recording.
    pub fn device(&mut self, device: &Device) {
        self.devices.insert(device.in_bio, device.number);
    }

    /// Adds the records of all events in `bytes`. If the file was `cut`, the last one may not be whole, and is left out.
    ///
    /// # Errors
    /// If `bytes` is not a number of whole events.
    pub fn decode(&mut self, mut bytes: &[u8], records: &mut Vec<Record>, cut: bool) -> Result<()> {
        while let Some((kind, event)) = first(bytes) {
            self.decode_one(kind, event, records)?;
            bytes = &bytes[event.len()..];
        }
        if bytes.is_empty() || cut { Ok(()) } else { Err(not_whole(bytes)) }
    }

    fn decode_one(&mut self, kind: Kind, event: &[u8], records: &mut Vec<Record>) -> Result<()> {
        let head { time, sp, value, tid, function, cpu_kind_interrupt } = read_first(event)?;
        let (cpu, interrupt) = (cpu_kind_interrupt & 0x1fff, cpu_kind_interrupt >> 15 != 0);
        let place = Place { time, sp, tid, cpu, interrupt };
        if kind == Kind::Mark {
            let what = MOMENTS.get(usize::from(function - MARKS)).copied();
            records.extend(what.map(|what| Record::Mark(Mark { time, object: value, what })));
            return Ok(());
        }
        let function = self.functions.get(&function).copied();
        match kind {
            Kind::Return => {
                records.push(Record::Return(Return { place, function, value }));
                return Ok(());
            }
            Kind::Thread => {
                let thread { comm, pid, .. } = read_first(event)?;
                self.threads.insert(tid, Task { tid, pid, comm: task_name(comm) });
                return Ok(());
            }
            Kind::Call | Kind::Mark => {}
            Kind::BioCall => self.bio = Some(self.bio(&read_first::<bio_call>(event)?.data)),
        }
        // A function that the kernel refused to probe after all.
        let Some(function) = function else { return Ok(()) };
        records.extend(self.threads.remove(&tid).map(Record::Task));
        records.push(Record::Call(Call { place, function, object: value, bio: self.bio }));
        Ok(())
    }

    fn bio(&self, data: &bio_data) -> Bio {
        Bio {
            sector: data.sector,
            bytes: data.bytes,
            opf: data.opf,
            device: self.devices.get(&(data.dev, data.partno)).copied().unwrap_or(data.dev),
            status: data.status,
            remaining: data.remaining,
            parent: data.parent,
            parent_remaining: data.parent_remaining,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a `struct head`, and what follows it.
    fn event(time: u64, function: u16, kind: u16, rest: &[u8]) -> Vec<u8> {
        let (sp, value) = (0xffff_c900_0010_4000_u64, 0xb10_u64);
        let numbers = [time, sp, value].map(u64::to_ne_bytes).concat();
        let place = 3 | kind << 13 | 1 << 15;
        [&numbers[..], &7_u32.to_ne_bytes(), &function.to_ne_bytes(), &place.to_ne_bytes(), rest].concat()
    }

    fn thread(comm: &[u8; 16]) -> Vec<u8> {
        event(0, 0, 3, &[&comm[..], &6_u32.to_ne_bytes(), &[0; 4]].concat())
    }

    /// A bio of the second partition of disk 8:0, as 5.10 has it.
    fn bio_call(time: u64) -> Vec<u8> {
        let (sector, parent) = (800_u64, 0_u64);
        let numbers = [4096, 0x8801, 8 << 20, 1, 0].map(u32::to_ne_bytes).concat();
        event(
            time,
            40,
            2,
            &[&[sector, parent].map(u64::to_ne_bytes).concat()[..], &numbers, &[2, 9, 0, 0]].concat(),
        )
    }

    fn decoded(bytes: &[u8], cut: bool) -> Result<Vec<Record>> {
        let mut decoder = Decoder::new(&[30, 40]);
        decoder.device(&Device { number: 8 << 20 | 2, name: "sda2".into(), in_bio: (8 << 20, 2) });
        let mut records = Vec::new();
        decoder.decode(bytes, &mut records, cut)?;
        Ok(records)
    }

    fn place(time: u64) -> Place {
        Place { time, sp: 0xffff_c900_0010_4000, tid: 7, cpu: 3, interrupt: true }
    }

    #[test]
    fn events_become_records() {
        let task = |comm: &str| Record::Task(Task { tid: 7, pid: 6, comm: comm.into() });
        let (object, bio) =
            (0xb10, Bio { sector: 800, bytes: 4096, opf: 0x8801, remaining: 1, ..Bio::default() });
        let bio = Some(Bio { device: 8 << 20 | 2, status: 9, ..bio });
        let first = Record::Call(Call { place: place(1), function: 1, object, bio });
        let second = Record::Call(Call { place: place(3), function: 0, object, bio });
        let returns = |time, function| Record::Return(Return { place: place(time), function, value: 0xb10 });

        let old = thread(b"old\0\0\0\0\0\0\0\0\0\0\0\0\0");
        let new = thread(b"new\0\0\0\0\0\0\0\0\0\0\0\0\0");
        let bytes = [old, bio_call(1), event(2, 40, 0, &[]), new, event(3, 30, 1, &[])].concat();
        assert_eq!(
            decoded(&bytes, false).unwrap(),
            [task("old"), first, returns(2, Some(1)), task("new"), second]
        );
        // A moment of a request.
        let mark = Record::Mark(Mark { time: 1, object: 0xb10, what: Moment::Issued });
        assert_eq!(decoded(&event(1, MARKS + 1, 1, &[]), false).unwrap(), [mark]);
        // A function that is not traced after all, and a return that doesn't say whose it is.
        let bytes = [event(1, 50, 1, &[]), event(2, u16::MAX, 0, &[])].concat();
        assert_eq!(decoded(&bytes, false).unwrap(), [returns(2, None)]);
    }

    #[test]
    fn an_event_that_is_cut_is_left_out() {
        let (whole, last) = (event(1, 40, 0, &[]), bio_call(2));
        for length in 0..last.len() {
            let bytes = [&whole[..], &last[..length]].concat();
            assert_eq!(decoded(&bytes, true).unwrap().len(), 1, "{length}");
            assert_eq!(decoded(&bytes, false).is_ok(), length == 0, "{length}");
        }
        assert_eq!(decoded(&[whole, last].concat(), true).unwrap().len(), 2);
    }

    #[test]
    fn a_bio_that_stays_as_it_was_is_sent_once() {
        let event = bio_call(1);
        let (head, bio) = event.split_first_chunk().unwrap();
        assert_eq!(kind(head), Kind::BioCall);
        assert_eq!(device(bio.first_chunk().unwrap()), (8 << 20, 2));
        let bytes = [&event[..], &without_bio(*head)].concat();
        let [Record::Call(first), Record::Call(second)] = decoded(&bytes, false).unwrap()[..] else {
            panic!()
        };
        assert!(first.bio.is_some());
        assert_eq!(first, second);
    }
}
