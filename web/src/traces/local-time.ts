/** Between times as the server tells them and as fields of the browser take them: in the clock of whoever sits before it. */

/** For `<input type="datetime-local">`; empty without a time. */
export function toField(at: string | null): string {
  const time = at ? new Date(at) : null;
  if (!time || Number.isNaN(time.getTime())) return '';
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

export function fromField(text: string): string | null {
  const time = text ? new Date(text) : null;
  return time && !Number.isNaN(time.getTime()) ? time.toISOString() : null;
}

/** `14 Nov, 10:00`, as short as a button wants it. */
export function brief(at: string): string {
  return new Date(at).toLocaleString('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });
}
