/** /login: exchanges a key for an HttpOnly cookie. */
import { useMutation, useQuery } from '@tanstack/react-query';
import { useEffect, useState, type ReactNode } from 'react';
import { useSearchParams } from 'wouter';
import { api } from '@/api/client';
import { nextPath, sessionQuery } from '@/app/auth';
import icon from '@/app/icon.svg';
import { Button, CopyButton } from '@/components/button';
import { TextField, LabeledField } from '@/components/form-fields';
import { ErrorMessage } from '@/components/status';
import { focusRef } from '@/lib/dom';
import { useTitle } from '@/lib/hooks';
import { serverPath } from '@/lib/server-path';

const COMMAND = 'palaver key create --scope read --scope invoke';

export default function LoginPage(): ReactNode {
  useTitle('Log in');
  const [query] = useSearchParams();
  const next = nextPath(query.get('next'));
  const [key, setKey] = useState('');
  const session = useQuery({ ...sessionQuery(), retry: false, staleTime: 0 });
  const login = useMutation({
    mutationFn: () => api('post', '/api/session', { body: { key: key.trim() } }),
    onSuccess: () => reloadAt(next),
  });
  useEffect(() => {
    if (session.data) reloadAt(next); // Already logged in, or no key is needed.
  }, [session.data, next]);
  return (
    <main className="flex min-h-full items-center justify-center px-4 py-10">
      <div className="flex w-full max-w-sm flex-col gap-6">
        <header className="flex flex-col items-center gap-2 text-center">
          <img src={icon} alt="" className="size-10" />
          <h1 className="text-xl font-semibold">Palaver</h1>
          <p className="text-muted">Enter your API key.</p>
        </header>
        <form
          className="flex flex-col gap-3 rounded-2xl border bg-surface p-5"
          onSubmit={(event) => {
            event.preventDefault();
            login.mutate();
          }}
        >
          <LabeledField label="API key">
            <TextField
              ref={focusRef}
              type="password"
              name="key"
              autoComplete="current-password"
              placeholder="plv_…"
              required
              maxLength={200}
              aria-invalid={login.isError}
              className="h-9 font-mono"
              value={key}
              onChange={(event) => setKey(event.target.value)}
            />
          </LabeledField>
          {login.error && <ErrorMessage error={login.error} />}
          <Button type="submit" variant="main" className="h-9" disabled={login.isPending || !key.trim()}>
            Log in
          </Button>
        </form>
        <div className="text-center text-[13px] text-muted">
          <p>To create a key, run this on the server:</p>
          <div className="mt-1.5 flex items-center gap-1 rounded-lg border bg-surface py-1 pr-1 pl-3 text-left">
            <code className="min-w-0 grow font-mono text-xs wrap-anywhere text-ink">{COMMAND}</code>
            <CopyButton text={COMMAND} label="Copy command" />
          </div>
        </div>
      </div>
    </main>
  );
}

/** Open a path with a full reload, so that socket and cached data belong to the new session. */
function reloadAt(next: string): void {
  window.location.replace(serverPath(next));
}
