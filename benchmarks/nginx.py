"""nginx as a proxy, whose speed is the limit for other proxies."""

from collections.abc import Collection, Sequence
from urllib.parse import urlsplit

from benchmarks.chat_bodies import LOADS, Load
from benchmarks.processes import Child, Processes, free_port

CONFIG = """
daemon off; master_process off; worker_processes 1; worker_rlimit_nofile 8192;
pid nginx.pid; error_log stderr;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_body_buffer_size 512k;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  upstream worker {{ {workers} keepalive 64; keepalive_requests 1000000000; }}
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  server {{ listen 127.0.0.1:{requests}; location / {{ proxy_pass http://worker; }} }}
  server {{ listen 127.0.0.1:{streams}; location / {{ proxy_pass http://worker; proxy_buffering off; }} }}
}}
"""


def start_nginx(
    processes: Processes, worker_urls: Sequence[str], *, cores: Collection[int]
) -> tuple[Child, dict[Load, str]]:
    """Start nginx with one process, and return its addresses for each kind of load. Streams are not buffered.

    Raises:
        ChildFailedError: if nginx does not start.
    """
    ports: dict[Load, int] = {load: free_port() for load in LOADS}
    servers = " ".join(f"server {urlsplit(url).netloc};" for url in worker_urls)
    folder = processes.directory / f"nginx-{ports['requests']}"
    folder.mkdir()
    config = folder / "nginx.conf"
    config.write_text(CONFIG.format(workers=servers, requests=ports["requests"], streams=ports["streams"]))
    child = processes.start("nginx", ["nginx", "-e", "stderr", "-p", str(folder), "-c", str(config)], cores=cores)
    for port in ports.values():
        child.wait_for_port(port)
    return child, {load: f"http://127.0.0.1:{port}" for load, port in ports.items()}
