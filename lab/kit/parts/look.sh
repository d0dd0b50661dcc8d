# shellcheck shell=sh
# What the kit needs of a laptop, and `./lab check`, which says what there is. Part of ../lab.

# What the machine may take of disk and memory, in MiB.
need_room=400 need_memory=700
# The oldest QEMU with which the kit was tested, and the oldest one whose best processor (-cpu max) boots all kernels.
need_qemu=5.2 good_qemu=7.2

install_qemu='install it, and look again with ./lab check:
Debian, Ubuntu  sudo apt install qemu-system-x86
Fedora          sudo dnf install qemu-system-x86-core
Arch            sudo pacman -S qemu-system-x86
macOS           brew install qemu
Windows         winget install SoftwareFreedomConservancy.QEMU, then lab.cmd'

system=$(uname -s)

is_older() { [ $((${1%.*} * 1000 + ${1#*.})) -lt $((${2%.*} * 1000 + ${2#*.})) ]; }

find_qemu() {
	qemu=$(command -v qemu-system-x86_64) ||
		fail "QEMU, which emulates the guest's machine, is missing" "qemu-system-x86_64 is not in PATH: $PATH" "$install_qemu"
	said=$("$qemu" --version 2>&1)
	version=$(printf '%s\n' "$said" | sed -n 's/.*version \([0-9]*\.[0-9]*\).*/\1/p;q')
	[ -n "$version" ] || fail "QEMU does not run" "$qemu --version says: $said" "$install_qemu"
	if is_older "$version" $need_qemu; then
		fail "this QEMU is too old" "$qemu is $version; the kit needs $need_qemu" "$install_qemu"
	fi
	# Under QEMU 5.2, 6.12 and 7.2 end before their first word on the best processor that it has.
	cpu=max
	! is_older "$version" $good_qemu || cpu=qemu64
}

look_for_room() {
	said=$(mkfifo "$scratch/lab-kit-$$" 2>&1 && rm "$scratch/lab-kit-$$") || fail "scratch files and pipes can't be made" "$said" \
		'name another folder, on a disk of your system and not on a stick: TMPDIR=FOLDER ./lab ...'
	# The number before the percentage. The names before and behind may have spaces in them.
	room=$(df -Pk "$scratch" | sed -n '$s/.* \([0-9][0-9]*\)  *[0-9]*% .*/\1/p')
	room=${room:+$((room / 1024))}
	[ "${room:-$need_room}" -ge "$need_room" ] || fail "there is no room for the guest's disks" \
		"$scratch has $room MiB, they may take $need_room MiB" 'make room there, or name another folder: TMPDIR=FOLDER ./lab ...'
}

look_for_memory() {
	meminfo=${LAB_MEMINFO:-/proc/meminfo}
	if [ -r "$meminfo" ]; then
		memory=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' "$meminfo")
		memory=${memory:+$((memory / 1024))}
	elif has sysctl; then
		memory=$(($(sysctl -n hw.memsize) / 1048576))
	else
		return
	fi
	[ "${memory:-$need_memory}" -ge "$need_memory" ] || fail "there is too little memory for the guest" \
		"$memory MiB are free, it takes $need_memory MiB" 'close what takes memory, such as a browser'
}

sums() {
	if has sha256sum; then sha256sum "$@"; else shasum -a 256 "$@"; fi
}

# whole [FILE...]: whether these files of the kit, or all of them, are as they were made.
whole() {
	has sha256sum || has shasum ||
		fail "nothing here can check the kit" 'neither sha256sum nor shasum is in PATH' 'install coreutils'
	[ -r "$kit/SHA256SUMS" ] ||
		fail "the kit is not whole" "$kit/SHA256SUMS is missing" 'copy all of the folder again from where you have it'
	all=
	bad=$(cd "$kit" && if [ $# -eq 0 ]; then all=yes; set -- kernels/* parts/* initramfs lab lab.cmd LICENSES.txt README.md; fi &&
		for file; do grep -q "  $file\$" SHA256SUMS || echo "$file: it is not in SHA256SUMS"; done 2>&1 &&
		if [ -n "$all" ]; then cat SHA256SUMS; else for file; do grep "  $file\$" SHA256SUMS; done; fi |
			sums -c - 2>&1 | grep -v -e ': OK$' -e 'computed checksum')
	[ -z "$bad" ] || fail "the kit is damaged" "$bad" 'copy it again from where you have it'
}

# The kernel that is wanted, and what it needs.
look_for_kernel() {
	whole kernels/default initramfs parts/look.sh parts/machine.sh parts/programs
	grep -qF "  kernels/$kernel.bzImage" "$kit/SHA256SUMS" ||
		fail "this kit has no kernel $kernel" "it has $(kernels)" 'name one of these'
	whole "kernels/$kernel.bzImage"
}

# The program that is wanted: a stage as 3, 03, or stage03, or an example by its name.
look_for_program() {
	name=${program#stage}
	name=${name%%_*}
	case $name in [0-9]) name=0$name ;; esac
	grep -qxF -e "$name" -e "$program" "$kit/parts/programs" || fail "there is no stage or example $program" \
		"there are $(tr '\n' ' ' <"$kit/parts/programs")" 'name one of these: ./lab run 03'
}

# What the processor can do for the guest, if anything: kvm or hvf. That it is there does not mean that it works.
accelerator() {
	case $system:$(uname -m) in
	Linux:x86_64) [ ! -r "$kvm" ] || [ ! -w "$kvm" ] || echo kvm ;;
	Darwin:x86_64) echo hvf ;;
	esac
}
kvm=${LAB_KVM:-/dev/kvm}
# What was found not to work, so that it is not tried each time.
broken=${XDG_CACHE_HOME:-${HOME:-/nowhere}/.cache}/bpf-storage-workbook/kit

# ---- ./lab check

# item NAME COMMAND...: one line of what is there, or why not.
item() {
	name=$1
	shift
	found='ok     '
	said=$("$@" 2>&1) || found=MISSING lacks=yes
	printf '  %s  %-14s%s\n' "$found" "$name" "$said" | sed 's/Error: //; 2,$s/^/         /'
}
check_qemu() { find_qemu && echo "$version ($qemu)"; }
check_room() { look_for_room && echo "${room:+$room MiB in }$scratch"; }
check_memory() { look_for_memory && echo "${memory:+$memory MiB}"; }
check_kit() { whole && echo "all files are as they were made; kernels $(kernels)"; }
check_boot() {
	argv=shell apart=''
	trap clean EXIT
	trap 'exit 130' INT TERM HUP QUIT
	look_for_kernel
	new_folder
	rm -f "$broken"
	start >/dev/null
	what="Linux $kernel was up after $(($(now) - start)) s, $how"
	case $accel:$system:$(uname -m) in
	:Linux:x86_64)
		if [ -e "$kvm" ]; then
			explain "$what" "you may not use $kvm, which is faster" "sudo usermod -aG kvm $(id -un), and log in again"
		else
			explain "$what" "there is no $kvm, which is faster" 'none is needed; or allow virtualization in the firmware'
		fi
		;;
	*) echo "$what" ;;
	esac
}
check() {
	lacks=
	item QEMU check_qemu
	item room check_room
	item memory check_memory
	item 'the kit' check_kit
	if [ -z "$lacks" ]; then
		find_qemu
		item 'a boot' check_boot
	fi
	[ -z "$lacks" ] || exit 1
	echo 'All is well: ./lab'
}
