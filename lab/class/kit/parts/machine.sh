# shellcheck shell=sh
# The guest's machine: QEMU, its pipes and files, the keys that the user types for it, and its end. Part of ../lab.

# Encodes a word for the kernel's command line.
encode() { printf '%s' "$1" | tr '\n\t' '  ' | sed 's/%/%25/g; s/ /%20/g; s/"/%22/g; s/,/%2C/g'; }

# The type and the size of the user's terminal. A program whose output goes elsewhere should print no colors.
terminal() {
	[ -z "$apart" ] || TERM=dumb
	size=$(stty size <&3 2>/dev/null)
	case $size in '' | 0*) size='24 80' ;; esac
	echo "$(encode "${TERM:-dumb}"),${size% *},${size#* }"
}

# tell_size CONSOLE FOLDER: sends the size of a console's window to the guest of a machine, over the port on which the
# guest sends its stderr: it has no port to spare.
tell_size() {
	size=$(stty size <&3 2>/dev/null)
	case $size in
	'' | 0*) ;;
	# Opened for reading, too, so it does not block if the machine is gone.
	*) { echo "$1 $size" 1<>"$2/stderr.in"; } 2>/dev/null ;;
	esac
}

# The machine is that of lab/machine/src/qemu.rs, which explains the options. A test compares them.
# emulate ACCEL: becomes QEMU, in the folder of the machine's pipes and files. With the variable shared, the guest has a
# network, and an address in it leads to the script that keeps the work.
emulate() {
	case $arch:$1 in
	x86_64:tcg) set -- -smp 2 -accel tcg,thread=single -cpu "$cpu,-erms,-fsrm" ;;
	arm64:tcg) set -- -smp 2 -accel tcg,thread=single -cpu cortex-a76 ;;
	*) set -- -smp 2 -accel "$1" -cpu host ;;
	esac
	mib=1024 second=pipe,id=second,path=second
	if [ -n "$shared" ]; then
		mib=2048 second=null,id=second
		set -- "$@" -netdev "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:$port-:$port,guestfwd=tcp:10.0.2.100:1-cmd:sh kept/keep kept" \
			-device virtio-net-pci,netdev=net,romfile=
	fi
	case $arch in
	x86_64)
		exec ${session:+setsid} "$qemu" -M q35 -m "$mib" "$@" -nodefaults -no-user-config -display none -no-reboot \
			-kernel "$kit/$arch/vmlinuz-$kernel" -initrd "$kit/$arch/$root" \
			-append "console=ttyS0 panic=-1 norandmaps no_timer_check 8250.nr_uarts=5 $request" \
			-chardev file,id=console,path=console -serial chardev:console -chardev stdio,id=first,signal=off \
			-serial chardev:first -chardev "$second" -serial chardev:second -chardev file,id=status,path=status \
			-serial chardev:status -chardev pipe,id=stderr,path=stderr -device pci-serial,chardev=stderr \
			-drive if=none,id=fs,format=raw,file.driver=null-co,file.size=256M,file.read-zeroes=on,snapshot=on \
			-device nvme,serial=lab-fs,drive=fs \
			-drive if=none,id=raw,format=raw,file.driver=null-co,file.size=64M,file.read-zeroes=on,snapshot=on \
			-device nvme,serial=lab-raw,drive=raw \
			-drive if=none,id=part,format=raw,file.driver=null-co,file.size=64M,file.read-zeroes=on,snapshot=on \
			-device nvme,serial=lab-part,drive=part
		;;
	arm64)
		exec ${session:+setsid} "$qemu" -M virt -m "$mib" "$@" -nodefaults -no-user-config -display none -no-reboot \
			-kernel "$kit/$arch/vmlinuz-$kernel" -initrd "$kit/$arch/$root" \
			-append "console=ttyAMA0 panic=-1 norandmaps 8250.nr_uarts=5 $request" \
			-chardev file,id=console,path=console -serial chardev:console -chardev stdio,id=first,signal=off \
			-device pci-serial,chardev=first -chardev "$second" -device pci-serial,chardev=second \
			-chardev file,id=status,path=status -device pci-serial,chardev=status -chardev pipe,id=stderr,path=stderr \
			-device pci-serial,chardev=stderr \
			-drive if=none,id=fs,format=raw,file.driver=null-co,file.size=256M,file.read-zeroes=on,snapshot=on \
			-device nvme,serial=lab-fs,drive=fs \
			-drive if=none,id=raw,format=raw,file.driver=null-co,file.size=64M,file.read-zeroes=on,snapshot=on \
			-device nvme,serial=lab-raw,drive=raw \
			-drive if=none,id=part,format=raw,file.driver=null-co,file.size=64M,file.read-zeroes=on,snapshot=on \
			-device nvme,serial=lab-part,drive=part
		;;
	esac
}
# Whether QEMU can forward $port to a guest. It prints why not.
try_port() {
	echo quit 2>/dev/null | "$qemu" -M none -nodefaults -no-user-config -display none -monitor stdio \
		-netdev "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:$port-:$port"
}

# machine ACCEL: becomes QEMU.
machine() {
	# In its own session: Ctrl-C is for the program in the guest, not for QEMU.
	session=$(command -v setsid)
	request="lab.argv=$argv lab.term=$(terminal)${apart:+ lab.stderr=apart}"
	cd "$tmp" && TMPDIR=$PWD && export TMPDIR && emulate "$1" 3<&- 5<&-
}

tmp='' claim='' machine='' watcher='' normal='' asked='' stopped=''
clean() {
	# When a window closes, we may get the signal more than once.
	trap '' INT TERM HUP QUIT
	give_back_keys
	if [ -n "$machine" ]; then
		kill_machine
		# QEMU still writes to the folder when it ends.
		wait "$machine" 2>/dev/null
	fi
	end_helpers
	[ -z "$claim" ] || rm -f "$claim"
	[ -z "$tmp" ] || rm -rf "$tmp"
}
end_helpers() {
	[ -n "$watcher" ] || return
	# Without wait, bash would report that they were killed.
	ids="$watcher $(cat "$tmp/helpers.$$" 2>/dev/null)"
	# shellcheck disable=SC2086 # the ids are words
	{ kill -9 $ids; wait $ids; } 2>/dev/null
}
kill_machine() {
	[ -n "$tmp" ] || return
	# If the machine was only just started, its process is not noted yet. Then whoever notes it ends it.
	echo 2>/dev/null >"$tmp/unwanted"
	[ -e "$tmp/ended" ] || ! pid=$(cat "$tmp/pid" 2>/dev/null) || kill -9 "$pid" 2>/dev/null
}

# For processes beside this script, which end on their own or together with it. They ignore TERM, because a TERM for
# the whole group must not cut off the program's last output. They ignore HUP, because the watcher must survive the
# HUP that follows when a terminal's first process ends.
stay() { trap '' TERM HUP; }
# Notes the process that was just started as such a helper.
note() { echo $! >>"$tmp/helpers.$$"; }

# If somebody kills this launcher, all its processes must end.
watch_over() {
	{
		stay
		# Otherwise the watcher would keep the stick in use.
		cd /
		while sleep 1 && kill -0 $$; do :; done
		# shellcheck disable=SC2046 # the ids are words
		kill -9 $(cat "$tmp/pid" "$tmp/helpers.$$")
	} >/dev/null 2>&1 3<&- 5<&- &
	watcher=$!
}

# Reads what the user types. We don't use cat, because busybox's cat holds its output back while it waits for a key.
typed() { exec dd bs=4096 <&3 2>/dev/null; }
# Passes on nothing but Ctrl-C. It reads a pipe: a leftover dd at the terminal would take the next key from the user.
only_interrupts() {
	while key=$(dd bs=1 count=1 2>/dev/null && echo .) && [ "$key" != . ]; do
		[ "$key" != "$(printf '\003.')" ] || printf '\003'
	done
}

# From here on, every key except Ctrl-] goes to the guest.
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
# Ctrl-] leaves the cursor on the guest's line, so begin a new one.
leave_line() { [ -z "$normal" ] || printf '\r\n' >&2; }

# Asks the program to end, as Ctrl-C does. Ends the machine if the program does not end, if somebody insists, or on
# Ctrl-].
end() {
	if [ -e "$tmp/up" ] && [ -z "$normal$asked" ]; then
		asked=yes
		printf '\003' >&5
		# Sleeps in steps of one second, because a leftover sleep keeps the stick in use.
		{
			stay
			left=$patience
			while [ "$left" -gt 0 ] && sleep 1; do left=$((left - 1)); done
			kill_machine
			# The process that reads from us may have stopped reading.
			# shellcheck disable=SC2086 # the ids are words
			kill -9 $readers
		} >/dev/null 2>&1 3<&- 5<&- &
		note
		return
	fi
	stopped=yes
	kill_machine
}

# boot ACCEL SECONDS: starts the machine and waits until it is up. Fails if that takes too long.
boot() {
	end_helpers
	rm -f "$tmp"/*
	mkfifo "$tmp/in" "$tmp/out" "$tmp/second.in" "$tmp/second.out" "$tmp/stderr.in" "$tmp/stderr.out" || exit 1
	[ -z "$shared" ] || ln -s "$kept" "$tmp/kept" || exit 1
	watch_over
	# From now on, we read these files.
	: >"$tmp/status"
	: >"$tmp/console"
	: >"$tmp/words"
	# Opened for reading, too, so the open does not wait for the machine.
	exec 5<>"$tmp/in"
	# If the reader goes away, as `head -3` does, ask the program to end.
	{
		stay
		# Not before the guest has the user's terminal, because the guest asks it for the cursor's position.
		until [ -e "$tmp/ready" ] || [ -e "$tmp/ended" ] || ! kill -0 $$; do sleep 0.1 || sleep 1; done
		cat 2>"$tmp/unwritten"
		printf '\003' >&5
	} <"$tmp/out" 2>/dev/null &
	readers=$!
	note
	{ stay && exec cat; } <"$tmp/stderr.out" >&2 &
	readers="$readers $!"
	note
	# After its helpers: if the launcher is killed, only those that are noted are ended with it.
	{
		stay
		machine "$1" <"$tmp/in" >"$tmp/out" 2>"$tmp/words" &
		machine=$!
		echo "$machine" >"$tmp/pid"
		[ ! -e "$tmp/unwanted" ] || kill -9 "$machine"
		wait "$machine"
		echo $? >"$tmp/ended"
	} 2>/dev/null &
	machine=$!
	start=$(now)
	while :; do
		# In this order: once the machine has ended, it has written all of its status.
		gone=
		[ ! -e "$tmp/ended" ] || gone=yes
		! grep -q '^ready' "$tmp/status" || break
		[ -z "$gone" ] || : >"$tmp/died"
		# After an internal error of KVM, QEMU goes on forever without running the guest.
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

# Finds out what went wrong with the machine, from the files that it left, and fails.
tell() {
	failed=$(sed -n 's/^failed //p' "$tmp/status")
	words=$(tail -n 5 "$tmp/words")
	last=$(tr -d '\r' <"$tmp/console" | grep -v '^$' | tail -n 10)
	panic=$(tr -d '\r' <"$tmp/console" | grep -A 25 -m 1 -E 'BUG: |Oops|general protection fault|Kernel panic')
	case $words in
	*'annot set up guest memory'* | *'annot allocate memory'*)
		fail "there is too little memory for the guest" "$words" 'close programs that use much memory, such as a browser' ;;
	*'No space left'*)
		fail "there is no room for the guest's disks" "$words" 'free some space there, or name another folder: TMPDIR=FOLDER ./lab ...' ;;
	*'host forwarding rule'*) taken "$words" ;;
	esac
	[ -z "$failed" ] || fail "$failed" '' ''
	[ -z "$panic" ] || fail "the guest's kernel panicked" "$panic" 'try again; if it panics again, try another kernel: --kernel VERSION'
	[ -z "$asked" ] || fail "the program did not end within $patience s" "$last" ''
	if [ -e "$tmp/died" ]; then
		fail "the emulator ended" "${words:-it printed nothing. $last}" \
			'check whether this machine has what the kit needs: ./lab check; or try another kernel: --kernel VERSION'
	fi
	fail "the guest hangs: it has not answered for $boot_limit s" "${words:+QEMU: $words
}the console's last lines:
$last" 'try again; if it hangs again, try another kernel: --kernel VERSION'
}

# Limits in seconds: for a boot, for a boot with an accelerator, and for a program that was asked to end and prints
# nothing.
boot_limit=${LAB_BOOT_LIMIT:-120} help_limit=${LAB_HELP_LIMIT:-10} patience=${LAB_PATIENCE:-60}
# Boots with the machine's accelerator if that works, and otherwise with emulation, which always works.
start() {
	accel=$(accelerator)
	this="$accel is broken on $(uname -r)"
	tried=
	known=$(find "$broken" -mmin -60 -exec cat {} + 2>/dev/null)
	if [ -n "$accel" ] && [ "$known" != "$this" ]; then
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
	# Blame the accelerator only if the same machine boots without it.
	if [ -n "$tried" ]; then
		explain "$accel does not work on this machine, so the kit uses emulation for the next hour" "$tried" \
			'none is needed. If you have fixed it, ./lab check tries it again'
		# If we can't save this, we try it again next time.
		{ mkdir -p "${broken%/*}" && echo "$this" >"$broken"; } 2>/dev/null
	fi
}

new_folder() {
	# Remove the folders of launchers that were killed.
	for folder in "$scratch"/lab-kit.*; do
		! is_ours "$folder" || is_alive "$folder" || rm -rf "$folder"
	done
	tmp=$(mktemp -d "$scratch/lab-kit.XXXXXX") || exit 1
	words $$ >"$tmp/.words"
	echo $$ >"$tmp/.launcher"
}
is_ours() { [ -e "$1/.launcher" ] && [ -n "$(find "$1" -prune -user "$(id -u)")" ]; }
# After the laptop was off, another process may have the launcher's number, but not its words.
is_alive() {
	launcher=$(cat "$1/.launcher") && kill -0 "$launcher" 2>/dev/null || return
	[ ! -e "$1/.words" ] || [ "$(words "$launcher")" = "$(cat "$1/.words")" ]
}
# words PROCESS: what it was called with.
words() {
	case $system in
	# Without -ww, the width of the window matters.
	Darwin) ps -ww -o args= -p "$1" ;;
	*) tr '\0' ' ' <"/proc/$1/cmdline" ;;
	esac 2>/dev/null
}
