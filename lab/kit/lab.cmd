@echo off
rem Starts the guest of this kit in QEMU on Windows, under emulation. Untested. The full launcher is lab, for Linux.
rem   lab.cmd            open a shell in the guest
rem   lab.cmd run 03     run a stage there; also: lab.cmd run 03 --io sync, lab.cmd demo
rem   set KERNEL=7.2     choose another kernel first. The arguments must not contain blanks or quotes.
setlocal
set KIT=%~dp0
set /p DEFAULT=<"%KIT%kernels\default"
if "%KERNEL%"=="" set KERNEL=%DEFAULT%
set QEMU=qemu-system-x86_64.exe
where /q %QEMU% || set QEMU=%ProgramFiles%\qemu\qemu-system-x86_64.exe
where /q qemu-system-x86_64.exe || if not exist "%QEMU%" (
  echo Error: QEMU, which emulates the guest's machine, is missing
  echo   fix: winget install SoftwareFreedomConservancy.QEMU
  exit /b 1
)
if not exist "%KIT%kernels\%KERNEL%.bzImage" (
  echo Error: this kit has no kernel %KERNEL%
  dir /b "%KIT%kernels"
  exit /b 1
)
set ARGV=%*
if "%ARGV%"=="" set ARGV=shell
set ARGV=%ARGV: =,%
rem qemu:begin eb9495c8
rem Written by `cargo lab sync`: change lab/src/machine/qemu.rs.
"%QEMU%" -M q35 -m 1024 -smp 2 -accel tcg,thread=single -cpu max,-erms,-fsrm -nodefaults -no-user-config -display none ^
  -no-reboot -kernel "%KIT%kernels\%KERNEL%.bzImage" -initrd "%KIT%initramfs" ^
  -append "console=ttyS0 panic=-1 norandmaps no_timer_check 8250.nr_uarts=6 lab.argv=%ARGV% lab.term=xterm,24,80" ^
  -chardev null,id=console -serial chardev:console -chardev stdio,id=first,signal=off -serial chardev:first ^
  -chardev null,id=second -serial chardev:second -chardev null,id=status -serial chardev:status ^
  -drive if=none,id=fs,format=raw,file.driver=null-co,file.size=256M,file.read-zeroes=on,snapshot=on ^
  -device nvme,serial=lab-fs,drive=fs ^
  -drive if=none,id=raw,format=raw,file.driver=null-co,file.size=64M,file.read-zeroes=on,snapshot=on ^
  -device nvme,serial=lab-raw,drive=raw ^
  -drive if=none,id=part,format=raw,file.driver=null-co,file.size=64M,file.read-zeroes=on,snapshot=on ^
  -device nvme,serial=lab-part,drive=part
rem qemu:end
