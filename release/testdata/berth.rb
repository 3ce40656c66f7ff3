class Berth < Formula
  desc "Package, ship and move optional CSI drivers for OpenShift and OKD"
  homepage "https://github.com/berth-csi/berth"
  version "1.2.3"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "https://github.com/berth-csi/berth/releases/download/v1.2.3/berth-v1.2.3-darwin-arm64.tar.gz"
      sha256 "03"
    end
  end

  on_linux do
    on_intel do
      url "https://github.com/berth-csi/berth/releases/download/v1.2.3/berth-v1.2.3-linux-amd64.tar.gz"
      sha256 "01"
    end
  end

  def install
    bin.install "berth"
    bin.install_symlink "berth" => "kubectl-berth"
    bin.install_symlink "berth" => "kubectl_complete-berth"
    bin.install_symlink "berth" => "oc-berth"
    bash_completion.install "completions/berth.bash" => "berth"
    zsh_completion.install "completions/berth.zsh" => "_berth"
    fish_completion.install "completions/berth.fish"
    prefix.install "licenses"
  end

  test do
    system bin/"berth", "version"
  end
end
