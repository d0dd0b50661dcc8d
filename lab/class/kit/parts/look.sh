# shellcheck shell=sh
# What the kit needs of a laptop, and `./lab check`, which reports what there is. Part of ../lab.

# How much disk and memory the machine may use, in MiB.
need_room=400 need_memory=700
# What to do if that is too much.
or_less=''
# The oldest QEMU whose best processor for x86_64 (-cpu max) boots all kernels.
good_qemu=7.2

system=$(uname -s)
case $(uname -m) in
x86_64 | amd64) host=x86_64 ;;
aarch64 | arm64) host=arm64 ;;
*) host='' ;;
esac

# Chooses the guest's architecture: the one that is asked for, else this machine's own, else one that the kit has.
choose_arch() {
	case $wanted in
	amd64 | x86-64) wanted=x86_64 ;;
	aarch64) wanted=arm64 ;;
	esac
	arch=$wanted
	if [ -z "$arch" ]; then
		arch=$host
		[ -n "$arch" ] && [ -e "$kit/$arch/default" ] || arch=$(arches | sed 's/.*, //')
	fi
	[ -e "$kit/$arch/default" ] || case $(arches) in
	'*') fail "the kit is not whole" "it has no guest: $kit has no folder with a file called default" 'copy the whole folder again' ;;
	*) fail "this kit has no guest for $arch" "it has $(arches)" "name one of these: --arch $(arches | sed 's/,.*//')" ;;
	esac
	# QEMU's words, the packages that have it, and the oldest one with which we tested the kit.
	case $arch in
	arm64) emulated=aarch64 debian=arm fedora=aarch64-core distro=aarch64 need_qemu=7.2 ;;
	*) emulated=x86_64 debian=x86 fedora=x86-core distro=x86 need_qemu=5.2 ;;
	esac
	install_qemu="install it, and look again with ./lab check:
Debian, Ubuntu  sudo apt install qemu-system-$debian
Fedora          sudo dnf install qemu-system-$fedora
Arch            sudo pacman -S qemu-system-$distro
macOS           brew install qemu
Windows         the same in WSL"
}

is_older() { [ $((${1%.*} * 1000 + ${1#*.})) -lt $((${2%.*} * 1000 + ${2#*.})) ]; }

find_qemu() {
	qemu=$(command -v qemu-system-$emulated) ||
		fail "QEMU, which emulates the guest's machine, is missing" "qemu-system-$emulated is not in PATH: $PATH" "$install_qemu"
	said=$("$qemu" --version 2>&1)
	version=$(printf '%s\n' "$said" | sed -n 's/.*version \([0-9]*\.[0-9]*\).*/\1/p;q')
	[ -n "$version" ] || fail "QEMU does not run" "$qemu --version prints: $said" "$install_qemu"
	if is_older "$version" $need_qemu; then
		fail "this QEMU is too old" "$qemu is $version; the kit needs $need_qemu" "$install_qemu"
	fi
	# On the best processor of QEMU 5.2, 6.12 and 7.2 end before they print anything.
	cpu=max
	! is_older "$version" $good_qemu || cpu=qemu64
}

# Finds out how many MiB are free in a folder, if the system reports it.
room_in() {
	# The number before the percentage. The names before and after it may contain spaces.
	room=$(df -Pk "$1" | sed -n '$s/.* \([0-9][0-9]*\)  *[0-9]*% .*/\1/p')
	room=${room:+$((room / 1024))}
}

look_for_room() {
	said=$(mkfifo "$scratch/lab-kit-$$" 2>&1 && rm "$scratch/lab-kit-$$") || fail "scratch files and pipes can't be made" "$said" \
		'name another folder, on a disk of your system and not on a stick: TMPDIR=FOLDER ./lab ...'
	room_in "$scratch"
	[ "${room:-$need_room}" -ge "$need_room" ] || fail "there is no room for the guest's disks" \
		"$scratch has $room MiB, and they may take $need_room MiB" 'free some space there, or name another folder: TMPDIR=FOLDER ./lab ...'
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
		"$memory MiB are free, and it needs $need_memory MiB" "close programs that use much memory, such as a browser$or_less"
}

sums() {
	if has sha256sum; then sha256sum "$@"; else shasum -a 256 "$@"; fi
}

# whole [FILE...]: checks that these files of the kit, or all of them, match their checksums.
whole() {
	has sha256sum || has shasum ||
		fail "this machine has no program to check the kit with" 'neither sha256sum nor shasum is in PATH' 'install coreutils'
	[ -r "$kit/SHA256SUMS" ] ||
		fail "the kit is not whole" "$kit/SHA256SUMS is missing" 'copy the whole folder again'
	all=
	bad=$(cd "$kit" && if [ $# -eq 0 ]; then all=yes; set -- */vmlinuz-* */initramfs */default parts/* lab LICENSES.txt README.md
		for file in */workshop; do [ ! -e "$file" ] || set -- "$@" "$file"; done; fi &&
		for file; do grep -q "  $file\$" SHA256SUMS || echo "$file: it is not in SHA256SUMS"; done 2>&1 &&
		if [ -n "$all" ]; then cat SHA256SUMS; else for file; do grep "  $file\$" SHA256SUMS; done; fi |
			sums -c - 2>&1 | grep -v -e ': OK$' -e 'computed checksum')
	[ -z "$bad" ] || fail "the kit is damaged" "$bad" 'copy the whole folder again'
}

# The guest's root: the small one, or the one with the workshop.
root=initramfs
# Checks the kernel that we want to boot, and the files that it needs.
look_for_kernel() {
	whole "$arch/default" "$arch/$root" parts/look.sh parts/machine.sh parts/workshop.sh parts/keep parts/programs
	grep -q "  $arch/vmlinuz-$kernel\$" "$kit/SHA256SUMS" ||
		fail "this kit has no kernel $kernel for $arch" "it has $(kernels)" 'name one of these'
	whole "$arch/vmlinuz-$kernel"
}

# Checks the program that we want to run: a stage as 3, 03, or stage03, or an example by its name.
look_for_program() {
	name=${program#stage}
	name=${name%%_*}
	case $name in [0-9]) name=0$name ;; esac
	grep -qxF -e "$name" -e "$program" "$kit/parts/programs" || fail "there is no stage or example $program" \
		"there are $(tr '\n' ' ' <"$kit/parts/programs")" 'name one of these: ./lab run 03'
}

# The accelerator that this machine offers for a guest of its own architecture, if any: kvm or hvf. It may still turn
# out not to work.
accelerator() {
	[ "$arch" = "$host" ] || return
	case $system in
	Linux) [ ! -r "$kvm" ] || [ ! -w "$kvm" ] || echo kvm ;;
	Darwin) echo hvf ;;
	esac
}
kvm=${LAB_KVM:-/dev/kvm}
# Where we remember that an accelerator does not work, in order not to try it every time.
broken=${XDG_CACHE_HOME:-${HOME:-/nowhere}/.cache}/bpf-storage-workbook/kit

# ---- ./lab check

# item NAME COMMAND...: prints a line with what is there, or an error. A command that can't tell returns 2.
item() {
	name=$1
	shift
	said=$("$@" 2>&1)
	case $? in
	0) found='ok     ' ;;
	2) found='unknown' ;;
	*) found=MISSING lacks=yes ;;
	esac
	printf '  %s  %-14s%s\n' "$found" "$name" "$said" | sed 's/Error: //; 2,$s/^/         /'
}
check_qemu() { find_qemu && echo "$version ($qemu)"; }
check_room() { look_for_room && echo "${room:+$room MiB in }$scratch"; }
check_memory() { look_for_memory && echo "${memory:+$memory MiB}"; }
check_kit() { whole && echo "all files match their checksums; for $(arches); kernels $(kernels)"; }
check_boot() {
	argv=shell apart=''
	trap clean EXIT
	trap 'exit 130' INT TERM HUP QUIT
	look_for_kernel
	new_folder
	rm -f "$broken"
	start >/dev/null
	what="Linux $kernel for $arch was up after $(($(now) - start)) s, $how"
	case $accel:$system:$arch in
	:Linux:"$host")
		if [ -e "$kvm" ]; then
			explain "$what" "you have no access to $kvm, which is faster" "sudo usermod -aG kvm $(id -un), and log in again"
		else
			explain "$what" "there is no $kvm, which is faster" 'none is needed; for more speed, enable virtualization in the firmware'
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
	if [ -e "$kit/$arch/workshop" ]; then
		item 'the workshop' check_workshop
		item 'its browser' check_browser
	fi
	if [ -z "$lacks" ]; then
		find_qemu
		[ ! -e "$kit/$arch/workshop" ] || item 'its port' check_port
		item 'a boot' check_boot
	fi
	[ -z "$lacks" ] || exit 1
	[ -e "$kit/$arch/workshop" ] && echo 'All is well: ./lab workshop' || echo 'All is well: ./lab'
}
