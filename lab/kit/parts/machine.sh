# shellcheck shell=sh
# The guest's machine: QEMU, its pipes and files, the keys that are typed for it, and its end. Part of ../lab.

# A word of the kernel's command line.
encode() { printf '%s' "$1" | tr '\n\t' '  ' | sed 's/%/%25/g; s/ /%20/g; s/"/%22/g; s/,/%2C/g'; }

# The kind and the size of the user's terminal; a program whose output goes elsewhere is to print no colours.
terminal() {
	[ -z "$apart" ] || TERM=dumb
	size=$(stty size <&3 2>/dev/null)
	case $size in '' | 0*) size='24 80' ;; esac
	echo "$(encode "${TERM:-dumb}"),${size% *},${size#* }"
}

# tell_size CONSOLE FOLDER: tells the guest of a machine how large the window of its console is.
tell_size() {
	size=$(stty size <&3 2>/dev/null)
	case $size in
	'' | 0*) ;;
	# Also for reading, so that it does not wait if the machine is gone.
	*) { echo "$1 $size" 1<>"$2/sizes"; } 2>/dev/null ;;
	esac
}

# qemu:begin b4488237
# Written by `cargo lab sync`: change lab/src/machine/qemu.rs.
# emulate ACCEL: becomes QEMU, in the folder of the machine's pipes and files.
emulate() {
	case $1 in
	tcg) set -- -smp 2 -accel tcg,thread=single -cpu "$cpu" ;;
	*) set -- -smp 2 -accel "$1" -cpu host ;;
	esac
	exec ${session:+setsid} "$qemu" -M q35 -m 1024 "$@" -nodefaults -no-user-config -display none -no-reboot \
		-kernel "$kit/kernels/$kernel.bzImage" -initrd "$kit/initramfs" \
		-append "console=ttyS0 panic=-1 8250.nr_uarts=6 $request" -chardev file,id=console,path=console \
		-serial chardev:console -chardev stdio,id=first,signal=off -serial chardev:first \
		-chardev pipe,id=second,path=second -serial chardev:second -chardev file,id=status,path=status \
		-serial chardev:status -chardev pipe,id=sizes,path=sizes -device pci-serial,chardev=sizes \
		-chardev file,id=stderr,path=stderr -device pci-serial,chardev=stderr \
		-drive if=none,id=fs,format=raw,file.driver=null-co,file.size=256M,file.read-zeroes=on,snapshot=on \
		-device nvme,serial=lab-fs,drive=fs \
		-drive if=none,id=raw,format=raw,file.driver=null-co,file.size=64M,file.read-zeroes=on,snapshot=on \
		-device nvme,serial=lab-raw,drive=raw \
		-drive if=none,id=part,format=raw,file.driver=null-co,file.size=64M,file.read-zeroes=on,snapshot=on \
		-device nvme,serial=lab-part,drive=part
}
# qemu:end

# machine ACCEL: becomes QEMU.
machine() {
	# In a session of its own: Ctrl-C is for the program in the guest, not for the machine.
	session=$(command -v setsid)
	request="lab.argv=$argv lab.term=$(terminal)${apart:+ lab.stderr=apart}"
	cd "$tmp" && TMPDIR=$PWD && export TMPDIR && emulate "$1" 3<&- 5<&-
}

tmp='' machine='' watcher='' normal='' asked='' stopped=''
clean() {
	# A window that is closed says so more than once.
	trap '' INT TERM HUP QUIT
	give_back_keys
	if [ -n "$machine" ]; then
		kill_machine
		# It leaves a last word in the folder.
		wait "$machine" 2>/dev/null
	fi
	end_helpers
	[ -z "$tmp" ] || rm -rf "$tmp"
}
end_helpers() {
	[ -n "$watcher" ] || return
	# Waited for, or else bash says that they were killed.
	ids="$watcher $(cat "$tmp/helpers.$$" 2>/dev/null)"
	# shellcheck disable=SC2086 # the ids are words
	{ kill -9 $ids; wait $ids; } 2>/dev/null
}
kill_machine() { [ -e "$tmp/ended" ] || ! pid=$(cat "$tmp/pid" 2>/dev/null) || kill -9 "$pid" 2>/dev/null; }

# What runs beside this script ends by itself or with it: a TERM for the whole group must not take the program's last words, and
# the HUP that a terminal's first process leaves not who watches over it.
stay() { trap '' TERM HUP; }
# What was just started is such.
note() { echo $! >>"$tmp/helpers.$$"; }

# If this launcher is killed, nothing of it may stay.
watch_over() {
	{
		stay
		# Or it would keep the stick in use.
		cd /
		while sleep 1 && kill -0 $$; do :; done
		# shellcheck disable=SC2046 # the ids are words
		kill -9 $(cat "$tmp/pid" "$tmp/helpers.$$")
	} >/dev/null 2>&1 3<&- 5<&- &
	watcher=$!
}

# What is typed. Not by cat: that of busybox keeps its output for itself while it waits for a key.
typed() { exec dd bs=4096 <&3 2>/dev/null; }

# From here on every key is the guest's, but Ctrl-].
take_keys() {
	[ -t 3 ] || return
	normal=$(stty -g <&3)
	case $1 in
	shell) stty raw -echo <&3 ;;
	*) stty -icanon -echo -icrnl -ixon <&3 ;;
	esac
	stty -iexten isig intr '^]' quit undef susp undef min 1 time 0 <&3
}
give_back_keys() { [ -z "$normal" ] || stty "$normal" <&3; }
# The line that Ctrl-] leaves is the guest's.
leave_line() { [ -z "$normal" ] || printf '\r\n' >&2; }

# Asks the program to end, as Ctrl-C does. If it does not, or somebody insists, or it is Ctrl-], ends the machine.
end() {
	if [ -e "$tmp/up" ] && [ -z "$normal$asked" ]; then
		asked=yes
		printf '\003' >&5
		# Second by second: what is left of it when it is not needed any more keeps the stick in use.
		{
			stay
			left=$patience
			while [ "$left" -gt 0 ] && sleep 1; do left=$((left - 1)); done
			kill_machine
			# Whoever reads from us may have stopped to.
			# shellcheck disable=SC2086 # the ids are words
			kill -9 $readers
		} >/dev/null 2>&1 3<&- 5<&- &
		note
		return
	fi
	stopped=yes
	kill_machine
}

# boot ACCEL SECONDS: starts the machine and waits until it is up. Fails if it does not come up in time.
boot() {
	end_helpers
	rm -f "$tmp"/*
	mkfifo "$tmp/in" "$tmp/out" "$tmp/second.in" "$tmp/second.out" "$tmp/sizes" "$tmp/stderr" || exit 1
	watch_over
	# Looked at from now on.
	: >"$tmp/status"
	: >"$tmp/console"
	: >"$tmp/words"
	# Also for reading, so that it can be opened before the machine is there.
	exec 5<>"$tmp/in"
	{
		stay
		machine "$1" <"$tmp/in" >"$tmp/out" 2>"$tmp/words" &
		machine=$!
		echo "$machine" >"$tmp/pid"
		wait "$machine"
		echo $? >"$tmp/ended"
	} 2>/dev/null &
	machine=$!
	# When nobody reads any more, as after `| head -3`, the program is asked to end.
	{
		stay
		# Not before the user's terminal is the guest's, which asks it where its cursor is.
		until [ -e "$tmp/ready" ] || [ -e "$tmp/ended" ]; do sleep 0.1 || sleep 1; done
		cat 2>"$tmp/unwritten"
		printf '\003' >&5
	} <"$tmp/out" 2>/dev/null &
	readers=$!
	note
	{ stay && exec cat; } <"$tmp/stderr" >&2 &
	readers="$readers $!"
	note
	start=$(now)
	until grep -q '^ready' "$tmp/status"; do
		# After an internal error of KVM QEMU goes on for ever, without running the guest.
		[ ! -e "$tmp/ended" ] || : >"$tmp/died"
		if [ -n "$stopped" ] || [ -e "$tmp/died" ] || grep -q '^failed' "$tmp/status" ||
			[ $(($(now) - start)) -ge "$2" ] || grep -q 'KVM internal error' "$tmp/words"; then
			kill_machine
			wait "$machine"
			return 1
		fi
		sleep 0.1 2>/dev/null || sleep 1
	done
	: >"$tmp/up"
}

# What went wrong with the machine, from what it left.
tell() {
	failed=$(sed -n 's/^failed //p' "$tmp/status")
	words=$(tail -n 5 "$tmp/words")
	last=$(tr -d '\r' <"$tmp/console" | grep -v '^$' | tail -n 10)
	panic=$(tr -d '\r' <"$tmp/console" | grep -A 25 -m 1 -E 'BUG: |Oops|general protection fault|Kernel panic')
	case $words in
	*'annot set up guest memory'* | *'annot allocate memory'*)
		fail "there is too little memory for the guest" "$words" 'close what takes memory, such as a browser' ;;
	*'No space left'*)
		fail "there is no room for the guest's disks" "$words" 'make room there, or name another folder: TMPDIR=FOLDER ./lab ...' ;;
	esac
	[ -z "$failed" ] || fail "$failed" '' ''
	[ -z "$panic" ] || fail "the guest's kernel panicked" "$panic" 'try again; if it panics again, try another kernel: --kernel VERSION'
	[ -z "$asked" ] || fail "the program did not end within $patience s" "$last" ''
	if [ -e "$tmp/died" ]; then
		fail "the emulator ended" "${words:-it said nothing. $last}" \
			'see whether this machine has what the kit needs: ./lab check; or try another kernel: --kernel VERSION'
	fi
	fail "the guest hangs: it has not answered for $boot_limit s" "${words:+QEMU: $words
}the console's last lines:
$last" 'try again; if it hangs again, try another kernel: --kernel VERSION'
}

# Seconds until a boot is given up, one that the processor helps with, and a program that was asked to end and prints nothing.
boot_limit=${LAB_BOOT_LIMIT:-120} help_limit=${LAB_HELP_LIMIT:-10} patience=${LAB_PATIENCE:-60}
# Boots with what the processor can do for the guest, if that works, else with emulation, which always does.
start() {
	accel=$(accelerator)
	this="$accel is broken on $(uname -r)"
	tried=
	if [ -n "$accel" ] && [ "$(cat "$broken" 2>/dev/null)" != "$this" ]; then
		if boot "$accel" "$help_limit"; then
			how="with $accel"
			return
		fi
		tried=$(tail -n 3 "$tmp/words")
		tried=${tried:-the guest was not up after $help_limit s}
	fi
	[ -z "$stopped" ] || exit 130
	if ! boot tcg "$boot_limit"; then
		[ -z "$stopped" ] || exit 130
		tell
	fi
	how='under emulation (TCG)'
	# It was the processor's fault only if the same machine boots without it.
	if [ -n "$tried" ]; then
		explain "$accel does not work on this machine; emulation is used from now on" "$tried" \
			'none is needed. If you mended it, ./lab check tries it again'
		# If it can't be remembered, it is tried again next time.
		{ mkdir -p "${broken%/*}" && echo "$this" >"$broken"; } 2>/dev/null
	fi
}

new_folder() {
	# What launchers that were killed left.
	for folder in "$scratch"/lab-kit.*; do
		! is_ours "$folder" || is_alive "$folder" || rm -rf "$folder"
	done
	tmp=$(mktemp -d "$scratch/lab-kit.XXXXXX") || exit 1
	echo $$ >"$tmp/.launcher"
}
is_ours() { [ -e "$1/.launcher" ] && [ -n "$(find "$1" -prune -user "$(id -u)")" ]; }
is_alive() { kill -0 "$(cat "$1/.launcher")" 2>/dev/null; }
