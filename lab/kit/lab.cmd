@echo off
rem Starts the guest of this kit in QEMU on Windows, under emulation. Untested. The full launcher is lab, for Linux.
rem   lab.cmd            open a shell in the guest
rem   lab.cmd run 03     run a stage there; also: lab.cmd run 03 --io sync, lab.cmd demo
rem   set KERNEL=7.2     choose another kernel first; also: set ARCH=arm64. Arguments must not contain blanks or quotes.
setlocal
set KIT=%~dp0
if "%ARCH%"=="" if "%PROCESSOR_ARCHITECTURE%"=="ARM64" if exist "%KIT%arm64" set ARCH=arm64
if "%ARCH%"=="" set ARCH=x86_64
if not exist "%KIT%%ARCH%\default" (
  echo Error: this kit has no guest for %ARCH%
  echo   fix: set ARCH=x86_64 or set ARCH=arm64, whichever of these is a folder of the kit:
  dir /b /ad "%KIT%"
  exit /b 1
)
set /p DEFAULT=<"%KIT%%ARCH%\default"
if "%KERNEL%"=="" set KERNEL=%DEFAULT%
set PROGRAM=qemu-system-x86_64.exe
if /i "%ARCH%"=="arm64" set PROGRAM=qemu-system-aarch64.exe
set QEMU=%PROGRAM%
where /q %PROGRAM% || set QEMU=%ProgramFiles%\qemu\%PROGRAM%
where /q %PROGRAM% || if not exist "%QEMU%" (
  echo Error: QEMU, which emulates the guest's machine, is missing
  echo   fix: winget install SoftwareFreedomConservancy.QEMU
  exit /b 1
)
if not exist "%KIT%%ARCH%\vmlinuz-%KERNEL%" (
  echo Error: this kit has no kernel %KERNEL% for %ARCH%
  dir /b "%KIT%%ARCH%"
  exit /b 1
)
set ARGV=%*
if "%ARGV%"=="" set ARGV=shell
set ARGV=%ARGV: =,%
rem qemu:begin 61dcf56c
rem Written by `cargo lab sync`: change lab/src/machine/qemu.rs.
goto %ARCH%
:x86_64
"%QEMU%" -M q35 -m 1024 -smp 2 -accel tcg,thread=single -cpu max,-erms,-fsrm -nodefaults -no-user-config -display none ^
  -no-reboot -kernel "%KIT%%ARCH%\vmlinuz-%KERNEL%" -initrd "%KIT%%ARCH%\initramfs" ^
  -append "console=ttyS0 panic=-1 norandmaps no_timer_check 8250.nr_uarts=5 lab.argv=%ARGV% lab.term=xterm,24,80" ^
  -chardev null,id=console -serial chardev:console -chardev stdio,id=first,signal=off -serial chardev:first ^
  -chardev null,id=second -serial chardev:second -chardev null,id=status -serial chardev:status ^
  -drive if=none,id=fs,format=raw,file.driver=null-co,file.size=256M,file.read-zeroes=on,snapshot=on ^
  -device nvme,serial=lab-fs,drive=fs ^
  -drive if=none,id=raw,format=raw,file.driver=null-co,file.size=64M,file.read-zeroes=on,snapshot=on ^
  -device nvme,serial=lab-raw,drive=raw ^
  -drive if=none,id=part,format=raw,file.driver=null-co,file.size=64M,file.read-zeroes=on,snapshot=on ^
  -device nvme,serial=lab-part,drive=part
exit /b
:arm64
"%QEMU%" -M virt -m 1024 -smp 2 -accel tcg,thread=single -cpu cortex-a76 -nodefaults -no-user-config -display none ^
  -no-reboot -kernel "%KIT%%ARCH%\vmlinuz-%KERNEL%" -initrd "%KIT%%ARCH%\initramfs" ^
  -append "console=ttyAMA0 panic=-1 norandmaps 8250.nr_uarts=5 lab.argv=%ARGV% lab.term=xterm,24,80" ^
  -chardev null,id=console -serial chardev:console -chardev stdio,id=first,signal=off -device pci-serial,chardev=first ^
  -chardev null,id=second -device pci-serial,chardev=second -chardev null,id=status -device pci-serial,chardev=status ^
  -drive if=none,id=fs,format=raw,file.driver=null-co,file.size=256M,file.read-zeroes=on,snapshot=on ^
  -device nvme,serial=lab-fs,drive=fs ^
  -drive if=none,id=raw,format=raw,file.driver=null-co,file.size=64M,file.read-zeroes=on,snapshot=on ^
  -device nvme,serial=lab-raw,drive=raw ^
  -drive if=none,id=part,format=raw,file.driver=null-co,file.size=64M,file.read-zeroes=on,snapshot=on ^
  -device nvme,serial=lab-part,drive=part
exit /b
rem qemu:end
